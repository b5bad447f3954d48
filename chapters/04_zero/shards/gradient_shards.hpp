#pragma once
/// @file
/// GradientShards: gradients of a model that exist as shards only (ZeRO-2 and ZeRO-3).

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/group_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/train/gradients/gradient_exchange.hpp"

namespace ultra::zero {

/// @brief Makes what reduces these groups, of gradients of this type on this device.
using MakeReducer = std::function<std::unique_ptr<GroupReducer>(std::vector<ReducedGroup> groups,
                                                                const Device&, DType)>;

/// @brief Reduces gradients to shards, group by group, while each backward pass runs.
///
/// finish() returns when this rank's shards hold the sums over all ranks and micro-batches; the
/// parameters themselves have no gradients then. Every backward pass communicates: all ranks make
/// the same ones. A backward pass must make all gradients of a group before the next group's;
/// another order is an InternalError, for it would not be that of the other ranks. A table that is
/// the output matrix too is the exception: its gradient stands as a whole from the head's backward
/// pass to the embedding's.
class GradientShards : public train::GradientExchange {
 public:
  /// @param groups  in backward order; their parameters outlive this object's use.
  GradientShards(const std::vector<ParameterGroup>& groups, const ShardGroups& ranks,
                 Overlap overlap);

  /// @brief With another reducer than ShardReducer.
  /// @param reducer  its shards are those of ranks.shards.
  GradientShards(const std::vector<ParameterGroup>& groups, const ShardGroups& ranks,
                 const MakeReducer& reducer);

  void action_begins(std::size_t chunk) override;
  void contributed(std::size_t parameter) override;
  void action_ends(std::size_t chunk) override;
  void finish() override;

  /// @brief [shard] This rank's part of a group's gradient, after finish().
  [[nodiscard]] const Tensor& shard(std::size_t group) const { return reducer_->shard(group); }

  /// @brief Frees the shards, after the optimizer step.
  void drop() { reducer_->drop(); }

 private:
  /// The groups of one chunk: what one backward pass makes.
  struct ChunkQueue {
    std::vector<std::size_t> groups;                    // in backward order
    std::map<std::size_t, std::size_t> local;           // numbers of parameters here
    std::unique_ptr<data_parallel::BucketQueue> queue;  // of these
  };

  void make_queues();
  [[nodiscard]] Tensor memory_for(std::size_t group, std::size_t i);
  void flush(std::size_t group);

  std::vector<ParameterGroup> groups_;
  ShardGroups ranks_;
  std::unique_ptr<GroupReducer> reducer_;
  std::map<std::size_t, ChunkQueue> queues_;  // by chunk
  std::size_t chunk_ = 0;                     // whose backward pass is under way
  std::optional<std::size_t> open_group_;     // whose gradients are being made
  Tensor open_;                               // the memory in which they are
  std::vector<nn::HookHandle> hooks_;         // of the parameters
};

}  // namespace ultra::zero
