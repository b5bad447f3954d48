#include "chapters/04_zero/shards/tree_reducer.hpp"

#include <utility>

#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/train/gradients/tensor_tree.hpp"

namespace ultra::zero {
namespace {

class TreeReducer final : public GroupReducer {
 public:
  TreeReducer(std::unique_ptr<GroupReducer> reducer, const std::vector<ParameterGroup>& groups,
              const train::StepSchedule& schedule)
      : reducer_(std::move(reducer)) {
    for (const ParameterGroup& group : groups) {
      std::vector<std::size_t> passes = backward_passes(schedule, group.chunk);
      const std::size_t leaves = passes.size();
      sums_.push_back({.passes = std::move(passes), .tree = train::TensorTree(leaves)});
    }
  }

  Tensor open(std::size_t group) override {
    if (sums_[group].is_on_its_way) join_what_has_come();  // of an earlier pass
    return reducer_->open(group);
  }
  void flush(std::size_t group) override {
    reducer_->flush(group);
    sums_[group].is_on_its_way = true;
  }
  void finish() override { join_what_has_come(); }
  const Tensor& shard(std::size_t group) const override { return sums_[group].sum; }
  void drop() override {
    reducer_->drop();
    for (GroupSum& of_group : sums_) {
      of_group.sum = Tensor();
      of_group.tree.clear();
      of_group.joined = 0;
    }
  }

 private:
  struct GroupSum {
    std::vector<std::size_t> passes;  // micro-batches, in the order of backward passes
    train::TensorTree tree;
    std::size_t joined = 0;
    bool is_on_its_way = false;
    Tensor sum = {};  // defined when all are joined
  };

  void join_what_has_come() {
    reducer_->finish();
    for (std::size_t group = 0; group < sums_.size(); ++group) {
      GroupSum& of_group = sums_[group];
      if (!std::exchange(of_group.is_on_its_way, false)) continue;
      const Tensor shard = reducer_->shard(group);
      if (of_group.tree.add(of_group.passes[of_group.joined++], shard)) of_group.sum = shard;
    }
    reducer_->drop();
  }

  std::unique_ptr<GroupReducer> reducer_;
  std::vector<GroupSum> sums_;  // by group
};

}  // namespace

std::unique_ptr<GroupReducer> joined_by_tree(std::unique_ptr<GroupReducer> reducer,
                                             const std::vector<ParameterGroup>& groups,
                                             const train::StepSchedule& schedule) {
  if (!reducer) return reducer;
  const bool by_trees = ops::sums_by_trees(groups.front().parameters.front()->device());
  if (!by_trees || backward_passes(schedule, groups.front().chunk).size() < 2) return reducer;
  return std::make_unique<TreeReducer>(std::move(reducer), groups, schedule);
}

}  // namespace ultra::zero
