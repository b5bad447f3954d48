#include "chapters/04_zero/shards/gradient_shards.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::zero {
namespace {

/// Hybrid sharding: every node has a copy of the model, so its shards are sums of the node only.
class SummedOverCopies final : public GroupReducer {
 public:
  SummedOverCopies(std::unique_ptr<GroupReducer> reducer, const std::vector<ParameterGroup>& groups,
                   const Communicator& copies)
      : reducer_(std::move(reducer)) {
    for (const ParameterGroup& group : groups) {
      copies_.push_back(copies.labeled("copies of " + group.name));
    }
  }

  Tensor open(std::size_t group) override { return reducer_->open(group); }
  void flush(std::size_t group) override { reducer_->flush(group); }
  void finish() override {
    reducer_->finish();
    std::vector<Work> works;
    for (std::size_t g = 0; g < copies_.size(); ++g) {
      works.push_back(copies_[g].all_reduce(reducer_->shard(g)));
    }
    for (Work& work : works) work.wait();
  }
  const Tensor& shard(std::size_t group) const override { return reducer_->shard(group); }
  void drop() override { reducer_->drop(); }

 private:
  std::unique_ptr<GroupReducer> reducer_;
  std::vector<Communicator> copies_;  // by group: labelled
};

}  // namespace

std::vector<ReducedGroup> reduced(const std::vector<ParameterGroup>& groups) {
  std::vector<ReducedGroup> all;
  for (const ParameterGroup& group : groups) {
    all.push_back({.name = group.name, .layout = group.layout});
  }
  return all;
}

std::unique_ptr<GroupReducer> shard_reducer(const std::vector<ParameterGroup>& groups,
                                            const ShardGroups& ranks, Overlap overlap) {
  const nn::Parameter& first = *groups.front().parameters.front();
  return summed_over_copies(
      std::make_unique<ShardReducer>(reduced(groups), ranks.shards, first.device(),
                                     first.grad_dtype(), overlap),
      groups, ranks.replicas);
}

std::unique_ptr<GroupReducer> summed_over_copies(std::unique_ptr<GroupReducer> reducer,
                                                 const std::vector<ParameterGroup>& groups,
                                                 const std::optional<Communicator>& copies) {
  if (!copies) return reducer;
  return std::make_unique<SummedOverCopies>(std::move(reducer), groups, *copies);
}

GradientShards::GradientShards(std::vector<ParameterGroup> groups,
                               std::unique_ptr<GroupReducer> reducer, Departure departure)
    : groups_(std::move(groups)), reducer_(std::move(reducer)), departure_(departure) {
  make_queues();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i) {
      nn::Parameter& parameter = *groups_[g].parameters[i];
      hooks_.push_back(parameter.allocate_grad_by([this, g, i] { return memory_for(g, i); }));
    }
  }
}

void GradientShards::make_queues() {
  for (std::size_t g = 0; g < groups_.size(); ++g) queues_[groups_[g].chunk].groups.push_back(g);
  for (auto& [chunk, queue] : queues_) {
    std::vector<data_parallel::Bucket> buckets;
    for (const std::size_t g : queue.groups) {
      data_parallel::Bucket bucket{.parameters = {}, .count = groups_[g].layout.count};
      for (const std::size_t number : groups_[g].numbers) {
        bucket.parameters.push_back(queue.local.size());
        queue.local.emplace(number, queue.local.size());
      }
      buckets.push_back(std::move(bucket));
    }
    queue.queue = std::make_unique<data_parallel::BucketQueue>(
        buckets, [this, &groups = queue.groups](std::size_t bucket) { complete(groups[bucket]); });
  }
}

Tensor GradientShards::memory_for(std::size_t group, std::size_t i) {
  if (groups_[group].is_tied) {
    const nn::Parameter& parameter = *groups_[group].parameters[i];
    return Tensor::empty(parameter.device(), parameter.shape(), parameter.grad_dtype(),
                         MemoryCategory::kGradients);
  }
  if (open_group_ != group) {
    reduce_scatter();
    if (open_group_) {
      throw InternalError(fmt::format(
          "a gradient of {} is made while those of {} are not complete: other ranks would reduce "
          "them in another order",
          groups_[group].name, groups_[*open_group_].name));
    }
    open_ = reducer_->open(group);
    open_group_ = group;
  }
  return groups_[group].view(open_, i);
}

void GradientShards::action_begins(std::size_t chunk) {
  chunk_ = chunk;
  if (queues_.contains(chunk)) queues_.at(chunk).queue->restart();
}

void GradientShards::contributed(std::size_t parameter) {
  const ChunkQueue& queue = queues_.at(chunk_);
  queue.queue->ready(queue.local.at(parameter));
}

void GradientShards::complete(std::size_t group) {
  complete_.push_back(group);
  if (departure_ == Departure::kWhenComplete) reduce_scatter();
}

// [region reduce_scatter]
void GradientShards::reduce_scatter() {
  for (const std::size_t group : std::exchange(complete_, {})) {
    if (groups_[group].is_tied) {
      open_ = reducer_->open(group);
      groups_[group].view(open_, 0).copy_from(groups_[group].parameters.front()->grad());
    }
    for (nn::Parameter* parameter : groups_[group].parameters) parameter->drop_grad();
    open_ = Tensor();  // from now on only the reduction keeps this memory alive
    open_group_.reset();
    reducer_->flush(group);
  }
}
// [/region]

void GradientShards::action_ends(std::size_t chunk) {
  reduce_scatter();
  if (queues_.contains(chunk)) queues_.at(chunk).queue->expect_all_flushed();
}

}  // namespace ultra::zero
