// The gradients of micro-batches, joined by their places.
//
// Covers: common/train/gradients/tensor_tree.hpp

#include "chapters/11_five_d/sums/tree_sums.hpp"

#include "common/nn/model.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::five_d {
namespace {

class TreeGradientsTest : public ultra::test::RandomTest {
 protected:
  /// A pass that makes gradients of all parameters, as a step tells of it.
  void pass_backward(std::size_t micro_batch, train::StepObserver& observer) {
    const train::Action action{.kind = train::ActionKind::kBackward, .micro_batch = micro_batch};
    observer.action_begins(action);
    for (nn::Parameter* parameter : model.parameters()) {
      parameter->add_grad([&](const Tensor& grad, ops::Write write) {
        ops::write_or_add(grad, gradient_of(*parameter, micro_batch), write);
      });
    }
    observer.action_ends(action);
  }

  /// The same numbers whenever it is asked for.
  Tensor gradient_of(const nn::Parameter& parameter, std::size_t micro_batch) const {
    ultra::test::Random own(seed + micro_batch);
    return own.tensor(Device::cpu(), parameter.shape(), DType::kF32, 1.0);
  }

  /// By the tree that the micro-batches' places give.
  Tensor by_places(const nn::Parameter& parameter, std::size_t micro_batches) const {
    const auto join = [](const Tensor& left, const Tensor& right) { return ops::add(left, right); };
    ops::NodeCounter<Tensor, decltype(join)> nodes(join);
    for (std::size_t i = 0; i < micro_batches; ++i) nodes.add(gradient_of(parameter, i));
    return nodes.take();
  }

  void expect_sums(std::size_t micro_batches) {
    for (const nn::Parameter* parameter : model.parameters()) {
      EXPECT_TRUE(ultra::test::all_equal(parameter->grad(), by_places(*parameter, micro_batches)))
          << parameter->name() << " of " << micro_batches << " micro-batches";
    }
  }

  nn::DenseFactory factory;
  nn::Model model{ultra::test::random_model_config(random), Device::cpu(), DType::kF32, 1, factory};
  std::vector<nn::Model*> chunks{&model};
};

TEST_F(TreeGradientsTest, JoinByPlaceInWhateverOrderPassesCome) {
  for (std::size_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
    const auto observer = join_gradients_by_tree(chunks, micro_batches);
    std::vector<std::size_t> order(micro_batches);
    std::iota(order.begin(), order.end(), 0);
    for (int step = 0; step < 4; ++step) {
      observer->step_begins({});
      for (const std::size_t micro_batch : order) pass_backward(micro_batch, *observer);
      expect_sums(micro_batches);
      model.drop_grads();
      std::shuffle(order.begin(), order.end(), std::mt19937_64(seed + micro_batches));
    }
  }
}

TEST_F(TreeGradientsTest, AreMadeWholeBeforeTheyAreJoined) {
  std::size_t calls = 0;
  const auto observer = join_gradients_by_tree(chunks, 4, [&](const nn::Parameter& parameter) {
    ops::scale_into(parameter.grad(), 2.0);  // exact
    ++calls;
  });
  observer->step_begins({});
  for (std::size_t i = 0; i < 4; ++i) pass_backward(i, *observer);
  EXPECT_EQ(calls, 4 * model.parameters().size());
  for (const nn::Parameter* parameter : model.parameters()) {
    ops::scale_into(parameter->grad(), 0.5);
  }
  expect_sums(4);
}

TEST_F(TreeGradientsTest, StandWhereTheirParameterHasItsGradientsFromTheFirstPassOn) {
  nn::Parameter& first = *model.parameters().front();
  const Tensor place = Tensor::empty(Device::cpu(), first.shape(), DType::kF32);
  const auto handle = first.allocate_grad_by([&] { return place; });
  const auto observer = join_gradients_by_tree(chunks, 3);
  observer->step_begins({});
  for (std::size_t i = 0; i < 3; ++i) pass_backward(i, *observer);
  EXPECT_TRUE(first.grad().shares_storage(place));
  expect_sums(3);
}

TEST_F(TreeGradientsTest, WaitInAsManyBuffersAsTheirNumberHasBits) {
  const auto observer = join_gradients_by_tree(chunks, 16);
  observer->step_begins({});
  const std::size_t before = model.device().memory().current()[MemoryCategory::kGradients];
  std::size_t most = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    pass_backward(i, *observer);
    most = std::max(most, model.device().memory().current()[MemoryCategory::kGradients] - before);
  }
  EXPECT_EQ(most, 4 * model.parameter_count() * size_of(DType::kF32));
}

TEST_F(TreeGradientsTest, AreLetAloneOnceTheObserverIsGone) {
  join_gradients_by_tree(chunks, 2).reset();
  const auto other = std::make_unique<train::StepObserver>();
  pass_backward(0, *other);
  EXPECT_TRUE(model.parameters().front()->grad().defined());
}

}  // namespace
}  // namespace ultra::five_d
