#include "chapters/04_zero/shards/gradient_shards.hpp"

#include <utility>

namespace ultra::zero {
namespace {

using data_parallel::Pass;

std::vector<ReducedGroup> reduced(const std::vector<ParameterGroup>& groups) {
  std::vector<ReducedGroup> all;
  for (const ParameterGroup& group : groups) {
    all.push_back({.name = group.name, .layout = group.layout});
  }
  return all;
}

}  // namespace

GradientShards::GradientShards(nn::Model& model, const std::vector<ParameterGroup>& groups,
                               const ShardGroups& ranks, Overlap overlap)
    : GradientShards(model, groups, ranks,
                     [&](std::vector<ReducedGroup> all, const Device& device, DType dtype) {
                       return std::make_unique<ShardReducer>(std::move(all), ranks.shards, device,
                                                             dtype, overlap);
                     }) {}

GradientShards::GradientShards(nn::Model& model, const std::vector<ParameterGroup>& groups,
                               const ShardGroups& ranks, const MakeReducer& reducer)
    : groups_(groups),
      ranks_(ranks),
      reducer_(reducer(reduced(groups), model.device(), model.parameters().front()->dtype())),
      open_(groups.size()),
      watch_(model, as_buckets(groups), [this](std::size_t group) { flush(group); }),
      alive_(std::make_shared<const bool>(true)) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i) {
      nn::Parameter& parameter = *groups_[g].parameters[i];
      parameter.allocate_grad_by(
          [this, g, i, &parameter, alive = std::weak_ptr<const bool>(alive_)] {
            if (!alive.expired()) return memory_for(g, i);
            return Tensor::empty(parameter.device(), parameter.shape(), parameter.dtype(),
                                 MemoryCategory::kGradients);
          });
    }
  }
}

void GradientShards::begin(Pass pass) {
  if (in_pass_) end_pass();
  state_.begin(pass);
  watch_.begin(Pass::kSynchronize);  // what is kept of a gradient are shards: every pass reduces
  in_pass_ = true;
}

Tensor GradientShards::memory_for(std::size_t group, std::size_t i) {
  Tensor& flat = open_[group];
  if (!flat.defined()) flat = reducer_->open(group);
  return groups_[group].view(flat, i);
}

// [region flush]
void GradientShards::flush(std::size_t group) {
  for (nn::Parameter* parameter : groups_[group].parameters) parameter->drop_grad();
  open_[group] = Tensor();  // from now on only the reduction keeps this memory alive
  reducer_->flush(group);
}
// [/region]

void GradientShards::end_pass() {
  watch_.finish();
  in_pass_ = false;
}

void GradientShards::finish() {
  if (in_pass_) end_pass();
  state_.finish();
  reducer_->finish();
  if (!ranks_.replicas) return;
  std::vector<Work> works;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    works.push_back(ranks_.replicas->labeled("copies of " + groups_[g].name)
                        .all_reduce_async(reducer_->shard(g), ReduceOp::kAverage));
  }
  for (Work& work : works) work.wait();
}

}  // namespace ultra::zero
