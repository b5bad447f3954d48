#include "common/train/update.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/errors.hpp"
#include "common/optim/clip.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/model.hpp"

namespace ultra::train {
namespace {

using ::testing::HasSubstr;

class ClippedAdamW : public ultra::test::RandomTest {
 protected:
  nn::Model model() { return {config_, device, DType::kF64, seed, factory_}; }

  /// Sets every gradient to the same number; returns their global norm.
  static double set_gradients(nn::Model& model, double value) {
    std::vector<Tensor> grads;
    model.drop_grads();
    for (nn::Parameter* parameter : model.parameters()) {
      parameter->add_grad([value](const Tensor& grad, ops::Write) { grad.fill(value); });
      grads.push_back(parameter->grad());
    }
    return optim::global_norm(grads);
  }

  static void expect_same_weights(const nn::Model& a, const nn::Model& b) {
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      EXPECT_TRUE(ultra::test::all_equal(a.parameters()[i]->value(), b.parameters()[i]->value()));
    }
  }

  TrainOptions options_;

 private:
  nn::ModelConfig config_ = ultra::test::random_model_config(random);
  nn::DenseFactory factory_;
};

TEST_F(ClippedAdamW, IsAStepOfAdamWOnClippedGradients) {
  nn::Model updated = model();
  nn::Model expected = model();
  options_.clip_norm = 0.25;
  const Update update = clipped_adamw(options_);
  optim::AdamW optimizer({});
  for (std::size_t step = 1; step <= 3; ++step) {
    const StepPlan plan{.step = step, .learning_rate = 0.01 * static_cast<double>(step)};
    const double value = 1.0 / static_cast<double>(step);
    const double norm = set_gradients(updated, value);
    ASSERT_GT(norm, options_.clip_norm);
    EXPECT_EQ(update(updated, plan), norm) << "before clipping";

    set_gradients(expected, value);
    std::vector<optim::TensorUpdate> updates;
    for (nn::Parameter* p : expected.parameters()) {
      updates.push_back({p->value(), p->grad(), p->value().shape().rank() > 1});
    }
    optimizer.step(updates, plan.learning_rate, options_.clip_norm / norm);
    expect_same_weights(updated, expected);
  }
}

TEST_F(ClippedAdamW, CopiesShareTheOptimizersState) {
  nn::Model by_one = model();
  nn::Model by_two = model();
  const Update one = clipped_adamw(options_);
  const Update first = clipped_adamw(options_);
  const Update second = first;
  for (std::size_t step = 1; step <= 4; ++step) {
    const StepPlan plan{.step = step, .learning_rate = 0.01};
    set_gradients(by_one, 0.1);
    set_gradients(by_two, 0.1);
    one(by_one, plan);
    (step % 2 == 0 ? first : second)(by_two, plan);
  }
  expect_same_weights(by_one, by_two);
}

TEST_F(ClippedAdamW, ANormThatIsNotFiniteIsAnErrorAndChangesNothing) {
  nn::Model updated = model();
  const nn::Model expected = model();
  set_gradients(updated, INFINITY);
  const Update update = clipped_adamw(options_);
  EXPECT_THAT(ultra::test::message_of<NumericError>(
                  [&] { update(updated, {.step = 9, .learning_rate = 0.1}); }),
              HasSubstr("the gradient norm is inf at step 9"));
  expect_same_weights(updated, expected);
}

}  // namespace
}  // namespace ultra::train
