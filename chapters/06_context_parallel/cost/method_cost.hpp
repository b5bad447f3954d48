#pragma once
/// @file
/// Which method wins: the time that attention of one block takes, forward and backward, on a machine
/// that is not here.
///
/// The rules:
/// - cp ranks fill nodes; neighbours exchange heads, one of each group of neighbours is on a ring with
///   the others (ContextGroups). All groups communicate at the same time, on chapter 02's link simulator.
/// - Blocks run at the same speed, whatever their size; all ranks have the same number (zig-zag). A
///   backward pass has 2.5 times the products of a forward pass.
/// - A ring hides what predict_ring() says; all-gather, reduce-scatter and all-to-all are waited for.
/// - Copies within a rank, projections and everything else take no time: they are the same for all.

#include <cstddef>
#include <vector>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "chapters/06_context_parallel/attention_methods/context_method.hpp"

namespace ultra::context_parallel {

/// @brief Attention of one block, and the machine.
struct MethodQuestion {
  std::size_t batch = 1;          ///< sequences of a micro-batch
  std::size_t seq_len = 0;        ///< tokens of a whole sequence
  std::size_t heads = 1;          ///< query heads per rank of tp
  std::size_t kv_heads = 1;       ///< key/value heads per rank of tp
  std::size_t head_dim = 1;       ///< elements
  std::size_t element_bytes = 2;  ///< of one
  double flops = 1;               ///< FLOP per second that attention reaches
  int cp = 1;                     ///< ranks that share a sequence
  collectives::Topology node;     ///< one full node; ranks fill such nodes
};

/// @brief What a method takes.
struct MethodCost {
  MethodChoice choice;       ///< which
  double compute = 0;        ///< seconds: the same for all
  double communication = 0;  ///< seconds that links are busy for a rank
  double exposed = 0;        ///< seconds of them that it waits

  /// @brief Seconds until it has ended.
  [[nodiscard]] double total() const { return compute + exposed; }
};

/// @brief All methods that can deal the heads out: ring, all-gather, ulysses, and ulysses+ring for each
/// number of neighbours.
/// @throws ConfigError when there is no such machine, or no rank has a token.
[[nodiscard]] std::vector<MethodCost> method_costs(const MethodQuestion& question);

/// @brief The one that ends first; of equal ones the first.
[[nodiscard]] const MethodCost& fastest(const std::vector<MethodCost>& costs);

}  // namespace ultra::context_parallel
