#include "common/train/gradients/tree_gradients.hpp"

#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/train/gradients/tensor_tree.hpp"

namespace ultra::train {
namespace {

/// One parameter's gradient, of which some micro-batches' nodes wait for their neighbours.
class GradientTree {
 public:
  /// @param uses  additions to it that a micro-batch makes.
  GradientTree(std::size_t leaves, std::size_t uses,
               std::function<void(const nn::Parameter&)> complete)
      : leaves_(leaves), uses_(uses), complete_(std::move(complete)), tree_(leaves) {}

  void step_begins() {
    tree_.clear();
    added_ = 0;
    made_ = 0;
  }

  /// The gradient of a micro-batch: the last one becomes the sum of all, the others are let go.
  void add(nn::Parameter& parameter, std::size_t leaf) {
    if (++made_ < uses_) return;
    made_ = 0;
    const bool is_last = ++added_ == leaves_;
    if (complete_) complete_(parameter);
    const bool is_all = tree_.add(
        leaf, is_last ? parameter.grad() : parameter.grad().clone(MemoryCategory::kGradients));
    ensure(is_all == is_last, "the last gradient completes the tree");
    if (!is_last) parameter.drop_grad();
  }

 private:
  std::size_t leaves_;
  std::size_t uses_;
  std::size_t made_ = 0;  // additions of this micro-batch
  std::function<void(const nn::Parameter&)> complete_;
  std::size_t added_ = 0;
  TensorTree tree_;
};

class TreeGradients : public StepObserver {
 public:
  TreeGradients(std::span<nn::Model* const> chunks, std::size_t micro_batches,
                const std::function<void(const nn::Parameter&)>& complete) {
    for (nn::Model* chunk : chunks) {
      for (nn::Parameter* parameter : chunk->parameters()) {
        auto tree =
            std::make_shared<GradientTree>(micro_batches, chunk->uses(*parameter), complete);
        trees_.push_back(tree);
        hooks_.push_back(parameter->on_grad_ready(
            [this, tree](nn::Parameter& of) { tree->add(of, micro_batch_); }));
      }
    }
  }

  void step_begins(const StepPlan&) override {
    for (const auto& tree : trees_) tree->step_begins();
  }

  void action_begins(const Action& action) override { micro_batch_ = action.micro_batch; }

 private:
  std::size_t micro_batch_ = 0;
  std::vector<std::shared_ptr<GradientTree>> trees_;
  std::vector<nn::HookHandle> hooks_;
};

}  // namespace

std::unique_ptr<StepObserver> join_gradients_by_tree(
    std::span<nn::Model* const> chunks, std::size_t micro_batches,
    const std::function<void(const nn::Parameter&)>& complete) {
  return std::make_unique<TreeGradients>(chunks, micro_batches, complete);
}

}  // namespace ultra::train
