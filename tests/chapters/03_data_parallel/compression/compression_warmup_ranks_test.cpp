// The warm-up before compression: which exchange works when, and AdamW with a second moment that is
// kept against AdamW where both are the same.

#include "chapters/03_data_parallel/compression/compression_warmup.hpp"

#include "chapters/03_data_parallel/compression/compressed_exchange.hpp"
#include "tests/chapters/03_data_parallel/compression/exchange_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using test::contents_of;
using test::exchanged;
using test::gradient_of;

class CompressionWarmup : public ::ultra::test::RandomTest {};

TEST_F(CompressionWarmup, CompressesAfterTheFirstSteps) {
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    const BucketContents contents = contents_of({{300}});
    const MakeBucketExchange plain = all_reduce_exchange(world);
    const MakeBucketExchange compressed =
        compressed_exchange(world, top_k_compressor(0.1), ErrorFeedback::kOn);
    for (const std::size_t steps : {0U, 1U, 3U}) {
      const auto switched = switch_exchange(steps, plain, compressed)(contents, own, DType::kF32);
      const auto first = plain(contents, own, DType::kF32);
      const auto then = compressed(contents, own, DType::kF32);
      for (std::size_t step = 0; step < 6; ++step) {
        const Tensor gradient = gradient_of(own, contents.count, DType::kF32, 1,
                                            static_cast<std::size_t>(world.rank()), step);
        EXPECT_EQ(exchanged(*switched, gradient),
                  exchanged(step < steps ? *first : *then, gradient))
            << "step " << step << " of " << steps << " without compression";
      }
    }
  });
}

struct State {
  Tensor value, m, v;

  [[nodiscard]] static State zeros(const Device& device, const Tensor& like) {
    const auto make = [&] { return Tensor::zeros(device, like.shape(), like.dtype()); };
    return {.value = make(), .m = make(), .v = make()};
  }

  void change_by(const optim::UpdateRule& rule, const Tensor& grad,
                 const optim::StepConstants& step) const {
    rule.apply(0, {.value = value, .grad = grad, .decay = true}, std::vector{m, v}, step);
  }
};

// A constant gradient has the second moment g^2 in every step, once its bias is corrected.
TEST_F(CompressionWarmup, KeptSecondMomentIsTheRunningOneForAConstantGradient) {
  for (const DType dtype : ::ultra::test::kFloatDTypes) {
    const Tensor grad = random.tensor(device, {40}, dtype);
    const State running = State::zeros(device, grad);
    const State kept = State::zeros(device, grad);
    const optim::Rule rule = keep_second_moment(3, optim::adamw());
    Tensor v_kept;
    for (int step = 1; step <= 10; ++step) {
      const optim::StepConstants constants{
          .learning_rate = 0.1, .gradient_scale = 0.5, .step = step};
      running.change_by(*optim::adamw(), grad, constants);
      kept.change_by(*rule, grad, constants);
      if (step == 3) v_kept = kept.v.clone();
      if (step <= 3) {
        EXPECT_TRUE(::ultra::test::all_equal(kept.value, running.value)) << "step " << step;
      }
    }
    EXPECT_TRUE(::ultra::test::all_equal(kept.v, v_kept)) << "it is kept";
    // Numbers stay below 4; each of ten steps has some 15 operations on them.
    const double tolerance = ::ultra::test::rounding_bound(dtype, 150, 4);
    EXPECT_TRUE(::ultra::test::all_near(kept.m, running.m, tolerance));
    EXPECT_TRUE(::ultra::test::all_near(kept.value, running.value, tolerance));
  }
}

TEST_F(CompressionWarmup, KeptSecondMomentForgetsLaterGradients) {
  const Tensor small = Tensor::empty(device, {1}, DType::kF64);
  const Tensor large = Tensor::empty(device, {1}, DType::kF64);
  small.fill(1);
  large.fill(100);
  const State state = State::zeros(device, small);
  const optim::AdamWConfig config{.beta1 = 0, .epsilon = 0, .weight_decay = 0};
  const optim::Rule rule = keep_second_moment(1, optim::adamw(config), config);
  const auto step = [&](const Tensor& grad, int number) {
    state.change_by(*rule, grad, {.learning_rate = 1, .step = number});
    return state.value.to_vector()[0];
  };
  EXPECT_NEAR(step(small, 1), -1, 1e-12);
  EXPECT_NEAR(step(large, 2), -101, 1e-10) << "100 times the gradient is 100 times the step";
}

}  // namespace
}  // namespace ultra::data_parallel
