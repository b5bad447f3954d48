// Pipelines of uneven stages and slow links beside the whole simulation and closed forms.
//
// Covers: chapters/11_five_d/planner/time/pipeline_time.hpp
#include "chapters/11_five_d/planner/time/pipeline_time.hpp"

#include <gtest/gtest.h>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

using pipeline_parallel::PartCost;
using pipeline_parallel::ScheduleChoice;
using pipeline_parallel::ScheduleKind;

constexpr PartCost kEven = {.forward = 0.010, .backward_input = 0.011, .backward_weight = 0.009};

class PipelineSeconds : public ultra::test::RandomTest {
 protected:
  PartCost random_cost() {
    return {.forward = random.uniform(0.5, 1.5),
            .backward_input = random.uniform(0.5, 1.5),
            .backward_weight = random.uniform(0.5, 1.5)};
  }
  static double simulated(const PipelineCosts& costs) {
    const auto schedule =
        pipeline_parallel::make_schedule(costs.schedule, costs.stages, costs.micro_batches);
    return pipeline_parallel::simulate(
               schedule, {.parts = costs.parts, .link = costs.link, .message_bytes = 1})
        .seconds();
  }
  static PipelineCosts even(const ScheduleChoice& schedule, std::size_t p, std::size_t m) {
    PipelineCosts costs{.schedule = schedule, .stages = p, .micro_batches = m};
    costs.parts.assign(p * schedule.chunks(), kEven);
    return costs;
  }
};

TEST_F(PipelineSeconds, EvenStagesAreTheClosedForm) {
  constexpr double kTogether = 0.030;
  for (const std::size_t m : {4U, 16U, 17U, 100U, 4096U}) {
    const double expected = (static_cast<double>(m) + 3) * kTogether;
    EXPECT_NEAR(pipeline_seconds(even({}, 4, m)) / expected, 1, 1e-3) << m;
  }
  // Two chunks each: half the bubble.
  const ScheduleChoice chunks{.kind = ScheduleKind::kInterleaved, .interleaved_chunks = 2};
  EXPECT_NEAR(pipeline_seconds(even(chunks, 4, 64)) / ((2 * 64 + 3) * kTogether), 1, 1e-3);
}

TEST_F(PipelineSeconds, ManyMicroBatchesAreContinuedAsTheyWouldBeSimulated) {
  // Where the longest stages are nearly as long as each other, and links are slow, the rhythm takes
  // more than 3 p micro-batches to settle.
  constexpr double kDrift = 0.06;
  for (int round = 0; round < 30; ++round) {
    const std::size_t p = random.between(2, 6);
    ScheduleChoice schedule{.kind =
                                random.pick({ScheduleKind::kOneFOneB, ScheduleKind::kZeroBubbleH1,
                                             ScheduleKind::kInterleaved})};
    if (schedule.kind == ScheduleKind::kInterleaved) schedule.interleaved_chunks = 2;
    PipelineCosts costs = even(schedule, p, p * random.between(5, 12));
    for (PartCost& part : costs.parts) part = random_cost();
    costs.link.seconds_per_byte = random.uniform(0, 0.5);
    EXPECT_NEAR(pipeline_seconds(costs) / simulated(costs), 1, kDrift)
        << schedule.str() << " p " << p << " m " << costs.micro_batches;
  }
}

TEST_F(PipelineSeconds, TheLongestStageIsTheBeat) {
  PipelineCosts costs = even({}, 4, 64);
  costs.parts[2] = {.forward = 0.020, .backward_input = 0.022, .backward_weight = 0.018};
  // It works all the time; before and behind are at most one pass of each of the three others.
  EXPECT_GT(pipeline_seconds(costs), 64 * 0.060);
  EXPECT_LE(pipeline_seconds(costs), (64 * 0.060 + 3 * 0.030) * 1.001);
}

TEST_F(PipelineSeconds, SlowLinksTakeLonger) {
  PipelineCosts costs = even({}, 4, 16);
  const double alone = pipeline_seconds(costs);
  costs.link.seconds_per_byte = 0.005;
  EXPECT_GE(pipeline_seconds(costs), alone + 2 * 3 * 0.005 - 1e-3);
}

TEST_F(PipelineSeconds, WhoWaitsForTheEndWaitsLonger) {
  PipelineCosts costs = even({.kind = ScheduleKind::kZbV}, 4, 16);
  const double each = pipeline_seconds(costs);
  costs.until_the_end = true;
  EXPECT_GE(pipeline_seconds(costs), each);
}

TEST_F(PipelineSeconds, NothingTakesNoTime) {
  PipelineCosts costs = even({}, 4, 16);
  costs.parts.assign(4, {.forward = 0, .backward_input = 0, .backward_weight = 0});
  EXPECT_EQ(pipeline_seconds(costs), 0);
}

}  // namespace
}  // namespace ultra::planner
