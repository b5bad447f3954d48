#include "tests/support/training/rank_runs.hpp"

#include <cstdio>

#include "tests/support/toolbox.hpp"

namespace ultra::test {

train::TrainResult train_replicated(const train::TrainOptions& options, const Communicator& world,
                                    const Put& put) {
  return train::train_with(
      setup_of(options, world.size(), train::list_of(plain_training(), putting(put))), world);
}

Communicator alone(const Communicator& world) { return world.split(std::identity(), "alone"); }

std::string quietly(const std::function<void()>& fn) {
  std::string printed = printed_by(fn);
  if (::testing::Test::HasFailure()) std::fputs(printed.c_str(), stdout);
  return printed;
}

void run_quietly(const std::string& what, int ranks, const std::function<void(Communicator&)>& fn,
                 const RankOptions& options) {
  SCOPED_TRACE(what);
  quietly([&] { run_ranks(ranks, fn, options); });
  if (::testing::Test::HasFailure()) std::printf("%s\n", what.c_str());
}

void expect_same_on_all(const Communicator& world, const std::vector<double>& values) {
  const Tensor first = Tensor::from<double>(Device::cpu(), {values.size()}, values).clone();
  world.broadcast(first, 0).wait();
  EXPECT_EQ(first.to_vector(), values) << "rank " << world.rank() << " against rank 0";
}

void expect_near_losses(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const double loss = expected.result.steps[i].loss;
    EXPECT_NEAR(actual.result.steps[i].loss, loss, relative * loss) << "step " << i + 1;
    const auto next = expected.result.steps[i].next_loss;
    ASSERT_EQ(actual.result.steps[i].next_loss.has_value(), next.has_value());
    if (next) {
      EXPECT_NEAR(*actual.result.steps[i].next_loss, *next, relative * *next) << "step " << i + 1;
    }
  }
}

void expect_near_norms(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const double norm = expected.result.steps[i].grad_norm;
    if (actual.result.steps[i].grad_norm == norm) continue;  // both may be infinite
    EXPECT_NEAR(actual.result.steps[i].grad_norm, norm, relative * norm) << "step " << i + 1;
  }
}

void expect_near_weights(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  // By Adam, which makes a rounding of a tiny gradient a part of the learning rate.
  double moved = 0;
  for (const train::StepMetrics& step : expected.result.steps) moved += step.learning_rate;
  for (std::size_t p = 0; p < expected.weights.size(); ++p) {
    EXPECT_LE(largest_difference(actual.weights[p], expected.weights[p]),
              relative * (largest_magnitude(expected.weights[p]) + moved))
        << "parameter " << p;
  }
}

void expect_saved_once(const RankRun& run) {
  EXPECT_THAT(run.written, ::testing::Each(::testing::Eq(1.0)))
      << "every element is saved by one rank";
}

std::vector<double> losses_of(const train::TrainResult& result) {
  std::vector<double> losses;
  for (const train::StepMetrics& step : result.steps) losses.push_back(step.loss);
  return losses;
}

std::vector<double> losses_and_norms(const train::TrainResult& result) {
  std::vector<double> numbers;
  for (const train::StepMetrics& step : result.steps) {
    numbers.push_back(step.loss);
    numbers.push_back(step.grad_norm);
    if (step.next_loss) numbers.push_back(*step.next_loss);
  }
  return numbers;
}

}  // namespace ultra::test
