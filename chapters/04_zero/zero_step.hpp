#pragma once
/// @file
/// ZeRO-1: every rank takes the optimizer step of its own shard only, so that it needs the
/// optimizer's states of that shard only.
///
/// An all-reduce is a reduce-scatter and an all-gather. ZeRO-1 puts the optimizer step between the
/// two: the gradients are reduce-scattered, each rank updates its shard of the weights, and the
/// *weights* are all-gathered. Nothing more is sent than without it.
///
/// Exercise 04.2 (`./workbook check 04.2`). Body: solutions/04_zero/zero_step.cpp.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, sections 5.1 and 7.2.1.

#include <span>
#include <utility>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/optim/optimizer.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::zero {

/// @brief Adds up a bucket so that each rank has its own shard of the sum, and nothing of the rest.
///
/// A drop-in for chapter 03's all-reduce.
/// Cost: (S-1)/S bytes of the bucket sent per rank, for S ranks that share a copy; with R copies
/// 2 (R-1)/R bytes of the shard in addition.
class ReduceScatterExchange : public data_parallel::BucketExchange {
 public:
  /// @param groups  whose operations carry the bucket's label.
  explicit ReduceScatterExchange(ShardGroups groups) : groups_(std::move(groups)) {}

  /// @brief Begins to reduce-scatter, in place.
  /// @param bucket  [padded] this rank's gradients; must not be touched until finish() returns.
  void start(const Tensor& bucket) override;

  /// @brief Returns when this rank's shard of the bucket holds the sum over all ranks. The other
  /// shards hold anything.
  void finish() override;

 private:
  ShardGroups groups_;
  Work work_;
  Tensor shard_;  // of the bucket under way
};

/// @brief Makes a ReduceScatterExchange for each bucket.
[[nodiscard]] data_parallel::MakeBucketExchange reduce_scatter_exchange(const ShardGroups& groups);

/// @brief One step of the optimizer on this rank's shard; then every rank has all weights.
///
/// @param own    the pieces of tensors in this rank's shards: the same in each step.
/// @param whole  flat arrays of weights, [padded] each, of all ranks' shards: gathered
/// in place. Empty when nobody holds all weights (ZeRO-3).
/// Collective over shards.
/// Cost: (S-1)/S bytes of the arrays sent per rank.   Memory: the optimizer's states of `own`, in
/// the first step.
void step_own_shard(std::span<const optim::TensorUpdate> own, std::span<const Tensor> whole,
                    const train::StepRule& rule, optim::Optimizer& optimizer,
                    const Communicator& shards);

}  // namespace ultra::zero
