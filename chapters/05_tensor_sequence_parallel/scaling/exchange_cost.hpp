#pragma once
/// @file
/// What one collective of tensor parallelism takes on a machine that is not here: chapter 02's step
/// lists on its link simulator.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::tensor_parallel {

/// @brief How ranks on several nodes gather and reduce.
enum class ExchangeAlgorithm : std::uint8_t {
  kRing,      ///< on one ring through all ranks: one NIC of each node carries it all
  kTwoLevel,  ///< inside the nodes and across them in turn: every NIC carries its share
};

/// @brief "ring" or "two-level".
[[nodiscard]] std::string_view to_string(ExchangeAlgorithm algorithm);

/// @brief A collective over all ranks of a tensor-parallel group.
struct Exchange {
  OpKind op = OpKind::kAllReduce;  ///< kAllReduce, kAllGather or kReduceScatter
  std::size_t count = 0;           ///< elements of the whole array, as in cost_model.hpp
  std::size_t element_bytes = 2;   ///< of one element

  /// @brief Equal when all members are.
  bool operator==(const Exchange&) const = default;
};

/// @brief What an exchange takes.
struct ExchangeCost {
  double seconds = 0;      ///< until the last rank has ended
  double intra_bytes = 0;  ///< that a rank sends inside its node, on average
  double inter_bytes = 0;  ///< that a rank sends to other nodes, on average

  /// @brief Equal when all members are.
  bool operator==(const ExchangeCost&) const = default;
};

/// @brief Simulates an exchange on all ranks of a machine. On one rank it takes nothing.
/// @throws ConfigError for another operation than the three.
[[nodiscard]] ExchangeCost simulate_exchange(const Exchange& exchange, ExchangeAlgorithm algorithm,
                                             const collectives::Topology& machine);

}  // namespace ultra::tensor_parallel
