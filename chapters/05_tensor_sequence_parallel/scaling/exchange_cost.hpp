#pragma once
/// @file
/// What one collective of tensor parallelism takes on a machine that is not here: chapter 02's step
/// lists on its link simulator.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/comm/collectives/schedule.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::tensor_parallel {

/// @brief Which part of a range a position has before a two-level all-gather, or after a two-level
/// reduce-scatter.
///
/// The range is cut into L = ranks_per_node chunks, one for each place in a node, and each chunk
/// into one piece per node: the position at place l of node n has piece n of chunk l. So the parts
/// are not in the order of the positions, which a rank's part of a sequence need not be, either.
/// @throws ConfigError when L < 1 or L does not divide group.size().
[[nodiscard]] Range two_level_part(const comm::Group& group, Range range, int ranks_per_node);

/// @brief All-gather across nodes among ranks at the same place, then inside each node; both on
/// rings.
///
/// A piece crosses each border between nodes once, through the NICs of all places at once.
/// @throws ConfigError as two_level_part().
/// Cost: (P/L - 1) + (L - 1) steps; n (P/L - 1)/P elements sent between nodes and n (L-1)/L inside
/// the node per rank, for equal chunks.
[[nodiscard]] comm::Lane two_level_all_gather(const comm::Group& group, Range range,
                                              int ranks_per_node);

/// @brief Reduce-scatter inside each node, then across nodes among ranks at the same place.
/// @throws ConfigError as two_level_part().
/// Cost: as two_level_all_gather().
[[nodiscard]] comm::Lane two_level_reduce_scatter(const comm::Group& group, Range range,
                                                  int ranks_per_node);

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

  bool operator==(const Exchange&) const = default;
};

/// @brief What an exchange takes.
struct ExchangeCost {
  double seconds = 0;      ///< until the last rank has ended
  double intra_bytes = 0;  ///< that a rank sends inside its node, on average
  double inter_bytes = 0;  ///< that a rank sends to other nodes, on average

  bool operator==(const ExchangeCost&) const = default;
};

/// @brief Simulates an exchange on all ranks of a machine. On one rank it takes nothing.
/// @throws ConfigError for another operation than the three.
[[nodiscard]] ExchangeCost simulate_exchange(const Exchange& exchange, ExchangeAlgorithm algorithm,
                                             const collectives::Topology& machine);

}  // namespace ultra::tensor_parallel
