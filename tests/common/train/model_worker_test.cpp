#include "common/train/model_worker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/short_run.hpp"

namespace ultra::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What a frame would give, for one rank.
class ModelWorkerTest : public ::testing::Test {
 protected:
  void with_context(const std::function<void(const RunContext&)>& fn) {
    run_ranks(1, [&](Communicator& world) {
      const data::Dataset dataset = data::Dataset::from_file(ultra::test::kText);
      const data::Sampler sampler(dataset, options.model.max_seq_len, options.global_batch, 1);
      const Device device = Device::cpu();
      trace::StepTimeline timeline(device, nullptr, 0);
      RankMeter meter(world, device);
      fn({.options = options,
          .world = world,
          .sampler = sampler,
          .device = device,
          .timeline = timeline,
          .meter = meter});
    });
  }

  TrainOptions options = ultra::test::short_run();
  nn::DenseFactory factory;
};

TEST_F(ModelWorkerTest, PassesThenUpdatesThenFreesTheGradients) {
  with_context([&](const RunContext& context) {
    std::vector<std::string> calls;
    TrainerParts parts = ultra::test::dense_parts(factory, options);
    parts.forward_backward = [&, inner = parts.forward_backward](
                                 nn::Model& model, const data::Sampler& sampler, std::size_t step) {
      calls.push_back("passes of step " + std::to_string(step));
      EXPECT_EQ(&sampler, &context.sampler);
      return inner(model, sampler, step);
    };
    parts.update = [&](nn::Model& model, const StepPlan& plan) {
      calls.push_back("update of step " + std::to_string(plan.step));
      EXPECT_EQ(plan.learning_rate, 0.125);
      for (const nn::Parameter* p : model.parameters()) EXPECT_TRUE(p->grad().defined());
      return 42.0;
    };
    ModelWorker worker(context, parts);
    EXPECT_EQ(worker.parameter_count(), worker.model().parameter_count());
    const StepOutcome outcome = worker.step({.step = 3, .learning_rate = 0.125});
    EXPECT_THAT(calls, ElementsAre("passes of step 2", "update of step 3"));
    EXPECT_NEAR(outcome.loss, std::log(256.0), 0.1);
    EXPECT_EQ(outcome.grad_norm, 42.0);
    for (const nn::Parameter* p : worker.model().parameters()) EXPECT_FALSE(p->grad().defined());
    const RankSeconds seconds = context.meter.summary().seconds;
    EXPECT_GT(seconds.forward_backward, 0.0);
    EXPECT_EQ(seconds.optimizer, 0.0) << "the frame ends the step";
  });
}

TEST_F(ModelWorkerTest, DoesNotUpdateByALossThatIsNotFinite) {
  with_context([&](const RunContext& context) {
    TrainerParts parts = ultra::test::dense_parts(factory, options);
    parts.forward_backward = [](auto&&...) { return std::nan(""); };
    parts.update = [](auto&&...) {
      ADD_FAILURE() << "updated";
      return 0.0;
    };
    ModelWorker worker(context, parts);
    EXPECT_THAT(ultra::test::message_of<NumericError>(
                    [&] { worker.step({.step = 1, .learning_rate = 0.1}); }),
                HasSubstr("the loss is nan at step 1"));
  });
}

}  // namespace
}  // namespace ultra::train
