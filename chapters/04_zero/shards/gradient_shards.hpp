#pragma once
/// @file
/// GradientShards: gradients of a model that exist as shards only (ZeRO-2 and ZeRO-3).

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/train/gradients/gradient_exchange.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

/// @brief When a group of gradients that is complete leaves.
enum class Departure {
  kWhenComplete,  ///< at once
  kWhenAsked,  ///< by reduce_scatter(), before the next group takes memory, or as the action ends
};

/// @brief Reduces gradients to shards, group by group, while each backward pass runs.
///
/// finish() returns when this rank's shards hold the sums over all ranks and micro-batches; the
/// parameters themselves have no gradients then. Every backward pass communicates: all ranks make
/// the same ones. A backward pass must make all gradients of a group before the next group's;
/// another order is an InternalError, for it would not be that of the other ranks. A table that is
/// the output matrix too is the exception: its gradient is whole from the head's backward
/// pass to the embedding's.
class GradientShards : public train::GradientExchange {
 public:
  /// @param groups   in backward order; their parameters outlive this object's use.
  /// @param reducer  of these groups; null where there are none.
  GradientShards(std::vector<ParameterGroup> groups, std::unique_ptr<GroupReducer> reducer,
                 Departure departure);

  void action_begins(std::size_t chunk) override;
  void contributed(std::size_t parameter) override;
  void action_ends(std::size_t chunk) override;
  void finish() override { reducer_->finish(); }

  /// @brief This object, or null where there are no groups: all parameters are frozen.
  [[nodiscard]] GradientShards* used() { return groups_.empty() ? nullptr : this; }

  /// @brief Begins to reduce the groups that are complete.
  void reduce_scatter();

  /// @brief [shard] This rank's part of a group's gradient, after finish().
  [[nodiscard]] const Tensor& shard(std::size_t group) const { return reducer_->shard(group); }

  /// @brief Frees the shards, after the optimizer step.
  void drop() {
    if (reducer_) reducer_->drop();
  }

 private:
  /// The groups of one chunk: what one backward pass makes.
  struct ChunkQueue {
    std::vector<std::size_t> groups;                    // in backward order
    std::map<std::size_t, std::size_t> local;           // numbers of parameters here
    std::unique_ptr<data_parallel::BucketQueue> queue;  // of these
  };

  void make_queues();
  [[nodiscard]] Tensor memory_for(std::size_t group, std::size_t i);
  void complete(std::size_t group);

  std::vector<ParameterGroup> groups_;
  std::unique_ptr<GroupReducer> reducer_;
  Departure departure_;
  std::map<std::size_t, ChunkQueue> queues_;  // by chunk
  std::size_t chunk_ = 0;                     // whose backward pass is under way
  std::vector<std::size_t> complete_;         // groups that have not left
  std::optional<std::size_t> open_group_;     // whose gradients are being made
  Tensor open_;                               // the memory in which they are
  std::vector<nn::HookHandle> hooks_;         // of the parameters
};

/// @brief The micro-batches of a step's passes that make gradients of a chunk, in their order.
[[nodiscard]] std::vector<std::size_t> backward_passes(const train::StepSchedule& schedule,
                                                       std::size_t chunk);

/// @brief The groups as a reducer knows them.
[[nodiscard]] std::vector<ReducedGroup> reduced(const std::vector<ParameterGroup>& groups);

/// @brief A ShardReducer of these groups, over all ranks; null without groups; for groups cut by rows a row_reducer() around it.
/// @param schedule  of each step: its last pass completes the shards.
[[nodiscard]] std::unique_ptr<GroupReducer> shard_reducer(const std::vector<ParameterGroup>& groups,
                                                          const ShardGroups& ranks, Overlap overlap,
                                                          const train::StepSchedule& schedule);

/// @brief Around a reducer whose shards others hold too: adds them up over these ranks, once a step,
/// during the last pass unless Overlap::kOff.
/// @param copies  absent: the reducer itself.
[[nodiscard]] std::unique_ptr<GroupReducer> summed_over_copies(
    std::unique_ptr<GroupReducer> reducer, const std::vector<ParameterGroup>& groups,
    const std::optional<Communicator>& copies, Overlap overlap,
    const train::StepSchedule& schedule);

}  // namespace ultra::zero
