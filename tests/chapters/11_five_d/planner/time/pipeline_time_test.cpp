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
  /// Of random stages and schedule, `groups` times as many micro-batches as stages, and some more.
  PipelineCosts pipeline(std::size_t groups) {
    const std::size_t p = random.between(2, 6);
    const ScheduleChoice schedule{
        .kind = random.pick({ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved,
                             ScheduleKind::kZeroBubbleH1, ScheduleKind::kZbV,
                             ScheduleKind::kDualPipeV})};
    const bool in_groups = schedule.kind == ScheduleKind::kInterleaved;
    PipelineCosts costs =
        even(schedule, p, p * (groups + 2) + (in_groups ? 0 : random.between(0, p - 1)));
    costs.until_the_end = true;
    return costs;
  }
  /// With passes and messages in whole ten-thousandths of a part's mean.
  PipelineCosts whole_costs(std::size_t groups) {
    PipelineCosts costs = pipeline(groups);
    const std::size_t apart = random.pick({0U, 20U, 2000U});
    const auto cost = [&] { return static_cast<double>(random.between(3333 - apart, 3333)); };
    for (PartCost& part : costs.parts) {
      part = {.forward = cost(), .backward_input = cost()};
      part.backward_weight = 10'000 - part.forward - part.backward_input;
    }
    costs.link = {.latency = static_cast<double>(random.between(0, 200)),
                  .seconds_per_byte = static_cast<double>(random.between(0, 1000))};
    costs.parts[0].backward_weight -= costs.link.latency + costs.link.seconds_per_byte;
    return costs;
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
  // In whole ten-thousandths of a part's mean nothing is rounded, and not a bit is off, however many
  // stages are nearly the longest and however slow the links are.
  for (int round = 0; round < 60; ++round) {
    const PipelineCosts costs = whole_costs(random.between(6, 40));
    EXPECT_NEAR(pipeline_seconds(costs) / simulated(costs), 1, 1e-12)
        << costs.schedule.str() << " p " << costs.stages << " m " << costs.micro_batches;
  }
}

TEST_F(PipelineSeconds, OtherCostsAreRounded) {
  // The shortest pass is a sixth of the mean part: half of a ten-thousandth of the mean is 3e-4 of it.
  constexpr double kRounding = 3e-4;
  for (int round = 0; round < 30; ++round) {
    PipelineCosts costs = pipeline(random.between(1, 12));
    for (PartCost& part : costs.parts) part = random_cost();
    costs.link.seconds_per_byte = random.uniform(0, 0.5);
    EXPECT_NEAR(pipeline_seconds(costs) / simulated(costs), 1, kRounding)
        << costs.schedule.str() << " p " << costs.stages << " m " << costs.micro_batches;
  }
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
