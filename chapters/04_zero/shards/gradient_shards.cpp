#include "chapters/04_zero/shards/gradient_shards.hpp"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "chapters/04_zero/rows/row_parts.hpp"
#include "common/base/errors.hpp"

namespace ultra::zero {
namespace {

/// Hybrid sharding: every node has a copy of the model, so its shards are sums of the node only. The
/// sum of a shard that the step's last pass has completed goes on while the pass computes.
class SummedOverCopies final : public GroupReducer {
 public:
  SummedOverCopies(std::unique_ptr<GroupReducer> reducer, const std::vector<ParameterGroup>& groups,
                   const Communicator& copies, Overlap overlap, const train::StepSchedule& schedule)
      : reducer_(std::move(reducer)),
        overlap_(overlap),
        taken_in_(groups.size()),
        sums_(groups.size()) {
    for (const ParameterGroup& group : groups) {
      copies_.push_back(copies.labeled("copies of " + group.name));
      passes_.push_back(backward_passes(schedule, group.chunk).size());
    }
  }

  Tensor open(std::size_t group) override {
    Tensor memory = reducer_->open(group);
    constexpr std::size_t kMostUnderWay = 2;  // in the reducer, which takes in the oldest
    while (on_the_way_.size() > kMostUnderWay) {
      const std::size_t oldest = on_the_way_.front();
      on_the_way_.pop_front();
      if (++taken_in_[oldest] == passes_[oldest] && overlap_ == Overlap::kOn) sum(oldest);
    }
    return memory;
  }
  void flush(std::size_t group) override {
    ensure(!sums_[group], "a shard that is summed over the copies was complete");
    reducer_->flush(group);
    on_the_way_.push_back(group);
  }
  void finish() override {
    reducer_->finish();
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      if (!sums_[g]) sum(g);
    }
    for (std::optional<Work>& work : sums_) {
      work->wait();
      work.reset();
    }
    on_the_way_.clear();
    taken_in_.assign(taken_in_.size(), 0);
  }
  const Tensor& shard(std::size_t group) const override { return reducer_->shard(group); }
  void drop() override { reducer_->drop(); }

 private:
  void sum(std::size_t group) { sums_[group] = copies_[group].all_reduce(reducer_->shard(group)); }

  std::unique_ptr<GroupReducer> reducer_;
  Overlap overlap_;
  std::deque<std::size_t> on_the_way_;  // groups that were flushed
  std::vector<std::size_t> passes_;     // by group: of a step
  std::vector<std::size_t> taken_in_;   // by group: passes of this step
  std::vector<std::optional<Work>> sums_;
  std::vector<Communicator> copies_;  // by group: labelled
};

}  // namespace

std::vector<std::size_t> backward_passes(const train::StepSchedule& schedule, std::size_t chunk) {
  std::vector<std::size_t> micro_batches;
  for (const train::Action& action : schedule) {
    if (action.chunk == chunk && action.makes_gradients()) {
      micro_batches.push_back(action.micro_batch);
    }
  }
  return micro_batches;
}

std::vector<ReducedGroup> reduced(const std::vector<ParameterGroup>& groups) {
  std::vector<ReducedGroup> all;
  for (const ParameterGroup& group : groups) {
    all.push_back({.name = group.name, .layout = group.layout});
  }
  return all;
}

std::unique_ptr<GroupReducer> shard_reducer(const std::vector<ParameterGroup>& groups,
                                            const ShardGroups& ranks, Overlap overlap,
                                            const train::StepSchedule& schedule) {
  if (groups.empty()) return nullptr;
  const nn::Parameter& first = *groups.front().parameters.front();
  std::unique_ptr<GroupReducer> reducer = std::make_unique<ShardReducer>(
      reduced(groups), ranks.shards, first.device(), first.grad_dtype(), overlap);
  if (groups.front().cut == ShardCut::kRows) reducer = row_reducer(std::move(reducer), groups);
  return summed_over_copies(std::move(reducer), groups, ranks.replicas, overlap, schedule);
}

std::unique_ptr<GroupReducer> summed_over_copies(std::unique_ptr<GroupReducer> reducer,
                                                 const std::vector<ParameterGroup>& groups,
                                                 const std::optional<Communicator>& copies,
                                                 Overlap overlap,
                                                 const train::StepSchedule& schedule) {
  if (!copies) return reducer;
  return std::make_unique<SummedOverCopies>(std::move(reducer), groups, *copies, overlap, schedule);
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
