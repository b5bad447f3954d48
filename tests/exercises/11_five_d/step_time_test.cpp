// Contract of exercise 11.2: the time of a step.
#include "chapters/11_five_d/planner/step_time.hpp"

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using pipeline_parallel::ScheduleKind;

constexpr const char* kPasses = "Hint: every micro-batch passes the slowest stage.";
constexpr const char* kBubble =
    "Hint: the bubble is what a pipeline waits once per step: it does not grow with m.";
constexpr const char* kMessages =
    "Hint: hidden messages still cost while the pipeline fills and drains.";
constexpr const char* kData = "Hint: what is hidden costs what it is longer than the passes.";
constexpr const char* kSlowdown = "Hint: everybody waits for the slowest rank, in all parts.";

class StepTimeTest : public ultra::test::RandomTest {
 protected:
  StepParts even(std::size_t stages, std::size_t micro_batches) {
    StepParts parts{.micro_batches = micro_batches};
    const double forward = random.uniform(0.5, 2);
    parts.stages.assign(stages,
                        {.forward = forward, .backward = 2 * forward, .weight_gradients = forward});
    return parts;
  }
};

/// The same step on chapter 07's simulator, with free messages.
double simulated(const StepParts& parts) {
  const std::size_t chunks = parts.schedule.chunks();
  pipeline_parallel::CostModel costs;
  const auto share = 1.0 / static_cast<double>(chunks);
  const StageSeconds& stage = parts.stages.front();
  for (std::size_t i = 0; i < parts.stages.size() * chunks; ++i) {
    costs.parts.push_back({.forward = share * stage.forward,
                           .backward_input = share * (stage.backward - stage.weight_gradients),
                           .backward_weight = share * stage.weight_gradients});
  }
  const auto schedule =
      pipeline_parallel::make_schedule(parts.schedule, parts.stages.size(), parts.micro_batches);
  return pipeline_parallel::simulate(schedule, costs).seconds();
}

TEST_F(StepTimeTest, OneStageTakesItsMicroBatches) {
  const StepParts parts{.stages = {{.forward = 1, .backward = 2, .weight_gradients = 1}},
                        .micro_batches = 5,
                        .message = 0.01,
                        .optimizer = 0.5};
  const StepSeconds step = step_seconds(parts);
  EXPECT_DOUBLE_EQ(step.passes, 15) << kPasses;
  EXPECT_DOUBLE_EQ(step.bubble, 0) << kBubble;
  EXPECT_DOUBLE_EQ(step.messages, 0) << kMessages;
  EXPECT_DOUBLE_EQ(step.total(), 15.5);
}

TEST_F(StepTimeTest, EvenPipelinesAsTheSimulatorHasThem) {
  for (const ScheduleKind kind : {ScheduleKind::kAfab, ScheduleKind::kOneFOneB,
                                  ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1}) {
    for (const std::size_t p : {2U, 3U, 4U}) {
      StepParts parts = even(p, p * random.between(1, 4));
      parts.schedule = {.kind = kind, .interleaved_chunks = 2};
      EXPECT_NEAR(step_seconds(parts).total(), simulated(parts), 1e-9)
          << parts.schedule.str() << " p " << p << " m " << parts.micro_batches << "\n"
          << kBubble;
    }
  }
}

TEST_F(StepTimeTest, TheSlowestStageIsWaitedFor) {
  StepParts parts = even(3, 6);
  const double before = step_seconds(parts).total();
  const double more = random.uniform(0.1, 1);
  parts.stages[1].forward += more;
  const StepSeconds step = step_seconds(parts);
  EXPECT_NEAR(step.passes, 6 * parts.stages[1].together(), 1e-12) << kPasses;
  // Of the bubble, two hops of three stages' mean.
  EXPECT_NEAR(step.total() - before, 6 * more + 2 * more / 3, 1e-9) << kBubble;
}

TEST_F(StepTimeTest, MessagesThatAreWaitedFor) {
  StepParts parts = even(2, 8);
  parts.message = 0.01;
  EXPECT_NEAR(step_seconds(parts).messages, 2 * 1 * 0.01 + 2 * 7 * 0.01, 1e-12) << kMessages;
  parts.stages.resize(4, parts.stages.front());
  EXPECT_NEAR(step_seconds(parts).messages, 2 * 3 * 0.01 + 2 * 7 * 0.01, 1e-12) << kMessages;
  parts.hides_messages = true;
  EXPECT_NEAR(step_seconds(parts).messages, 2 * 3 * 0.01, 1e-12) << kMessages;
  parts.hides_messages = false;
  parts.schedule = {.kind = ScheduleKind::kInterleaved, .interleaved_chunks = 3};
  EXPECT_NEAR(step_seconds(parts).messages, 2 * 3 * 0.01 + 2 * 7 * 3 * 0.01, 1e-12) << kMessages;
}

TEST_F(StepTimeTest, ExchangesOfReplicas) {
  StepParts parts{.stages = {{.forward = 1, .backward = 2, .weight_gradients = 1}},
                  .micro_batches = 4,
                  .data = {.gradients = 5, .parameters = 0.5, .each_micro_batch = 3.25}};
  EXPECT_NEAR(step_seconds(parts).data, 5 + 0.5 + 4 * 3.25, 1e-12) << kData;
  parts.hides_data = true;
  EXPECT_NEAR(step_seconds(parts).data, 3 + 0 + 4 * 0.25, 1e-12) << kData;
  parts.data.parameters = 1.5;
  EXPECT_NEAR(step_seconds(parts).data, 3 + 0.5 + 4 * 0.25, 1e-12) << kData;
}

TEST_F(StepTimeTest, ChunksHideMore) {
  StepParts parts{.stages = {{.forward = 1, .backward = 2}, {.forward = 1, .backward = 2}},
                  .schedule = {.kind = ScheduleKind::kInterleaved, .interleaved_chunks = 2},
                  .micro_batches = 4,
                  .data = {.gradients = 3},
                  .hides_data = true};
  // The last chunk's half, less its pass: (3 - 2) / 2; of all less two stages' first chunks: 3 - 2.
  EXPECT_NEAR(step_seconds(parts).data, 1, 1e-12) << kData;
  parts.data.gradients = 2.5;
  EXPECT_NEAR(step_seconds(parts).data, 0.5, 1e-12) << kData;
  parts.stages.resize(4, parts.stages.front());
  EXPECT_NEAR(step_seconds(parts).data, 0.25, 1e-12) << kData;
  // Of three chunks: (6 - 2) / 3; of all less four stages' first two chunks: 6 - 4 * 4 / 3.
  parts.schedule.interleaved_chunks = 3;
  parts.data.gradients = 6;
  EXPECT_NEAR(step_seconds(parts).data, 4.0 / 3, 1e-12) << kData;
  parts.stages.resize(2);
  EXPECT_NEAR(step_seconds(parts).data, 6 - 8.0 / 3, 1e-12) << kData;
}

TEST_F(StepTimeTest, EverythingWaitsForTheSlowestRank) {
  StepParts parts = even(2, 4);
  parts.data.gradients = 0.3;
  parts.optimizer = 0.1;
  const double alone = step_seconds(parts).total();
  parts.slowdown = 1.05;
  EXPECT_NEAR(step_seconds(parts).total(), 1.05 * alone, 1e-9) << kSlowdown;
}

}  // namespace
}  // namespace ultra::planner
