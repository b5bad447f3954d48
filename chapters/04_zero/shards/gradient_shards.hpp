#pragma once
/// @file
/// GradientShards: gradients of a model that exist as shards only (ZeRO-2 and ZeRO-3).

#include <functional>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "chapters/03_data_parallel/gradient_watch.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/group_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/nn/model.hpp"

namespace ultra::zero {

/// @brief Makes what reduces these groups, of gradients of this type on this device.
using MakeReducer = std::function<std::unique_ptr<GroupReducer>(std::vector<ReducedGroup> groups,
                                                                const Device&, DType)>;

/// @brief Reduces the gradients of a model to shards, group by group, while each backward pass runs.
///
/// As a GradientSync it is finished when this rank's shards hold the averages over all ranks, summed
/// over the micro-batches; the parameters themselves have no gradients then. Every pass communicates,
/// also those with Pass::kAccumulate: all ranks must have the same number of them.
/// The backward pass must make all gradients of a group before the next group's.
class GradientShards : public data_parallel::GradientSync {
 public:
  /// @param model   outlives this object's use.
  /// @param groups  of its parameters, in backward order.
  GradientShards(nn::Model& model, const std::vector<ParameterGroup>& groups,
                 const ShardGroups& ranks, Overlap overlap);

  /// @brief With another reducer than ShardReducer.
  /// @param reducer  its shards are those of ranks.shards.
  GradientShards(nn::Model& model, const std::vector<ParameterGroup>& groups,
                 const ShardGroups& ranks, const MakeReducer& reducer);

  void begin(data_parallel::Pass pass) override;
  void finish() override;

  /// @brief [shard] This rank's part of a group's gradient, after finish().
  [[nodiscard]] const Tensor& shard(std::size_t group) const { return reducer_->shard(group); }

  /// @brief Frees the shards, after the optimizer step.
  void drop() { reducer_->drop(); }

 private:
  void end_pass();
  [[nodiscard]] Tensor memory_for(std::size_t group, std::size_t i);
  void flush(std::size_t group);

  std::vector<ParameterGroup> groups_;
  ShardGroups ranks_;
  std::unique_ptr<GroupReducer> reducer_;
  std::vector<Tensor> open_;  // by group: the memory that its gradients are made in
  data_parallel::StepState state_;
  bool in_pass_ = false;
  data_parallel::GradientWatch watch_;
  std::shared_ptr<const bool> alive_;
};

}  // namespace ultra::zero
