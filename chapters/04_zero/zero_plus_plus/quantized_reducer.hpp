#pragma once
/// @file
/// QuantizedReducer: gradients become shards by an all-to-all of quantised pieces.

#include <cstddef>
#include <optional>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Reduces groups of gradients to this rank's shards, as qgZ does: in ShardReducer's order, but
/// what travels are quantised pieces.
///
/// A reduce-scatter of quantised numbers by a ring would quantise the sum anew at each of its S - 1
/// steps. Here every rank quantises its piece for each owner, the pieces change hands in an
/// all-to-all, and the owner adds them up in the gradients' own type, in the order of the ranks: the
/// same bits in every run.
///
/// With nodes (n ranks in each of K) this happens twice. Inside the node a rank gets what the node has
/// for its K "columns", the owners with its place in each node; the sums are quantised again and
/// change hands between the K ranks of a column. Between nodes a rank sends K - 1 pieces instead of
/// the S - n of one step, for a second quantisation. One node, or nodes of one rank, are no nodes.
///
/// Memory: as ShardReducer, but what is under way are the quantised pieces sent and received; and
/// while they are added up, K shards of sums. All as MemoryCategory::kCommunication.
/// Cost: with q bytes for a quantised shard, (S-1) q sent per rank, group and pass; with nodes
/// (n-1) K q + (K-1) q, of which (K-1) q between nodes.
/// Source: Wang et al. 2023, "ZeRO++", arXiv 2306.10209, section 3.3. Deviation: the second step is
/// waited for at once, so it does not overlap with the backward pass.
class QuantizedReducer : public ShardReducer {
 public:
  /// @brief Reduces nothing yet.
  /// @param groups  in the order in which the backward pass makes them.
  /// @param shards  the ranks that share the result.
  /// @param nodes   of these ranks; absent: one step.
  QuantizedReducer(std::vector<ReducedGroup> groups, const Communicator& shards,
                   const std::optional<NodeGroups>& nodes, const BlockFormat& format, Device device,
                   DType dtype, Overlap overlap);

  void flush(std::size_t group) override;

 private:
  void drain_oldest() override;
  [[nodiscard]] UnderWay begin_first_step(std::size_t group, const Tensor& flat) const;
  [[nodiscard]] Tensor exchanged_between_nodes(std::size_t group, const Tensor& columns) const;
  [[nodiscard]] Tensor exchange_memory(std::size_t words) const;
  [[nodiscard]] Tensor sum_of(const Tensor& exchange, std::size_t columns, std::size_t shard) const;

  Communicator first_;                  // of a node, or all ranks
  std::optional<Communicator> second_;  // the column's, when there are nodes
  std::size_t ranks_;
  BlockFormat format_;
};

}  // namespace ultra::zero
