// Contract of exercise 07.5: what the simulator counts, without it.
#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr const char* kBubble =
    "Hint: draw the schedule of 3 stages. For which passes of other stages does a stage wait "
    "before its first one, and for which behind its last one? Where does a W fill the gap? Does it "
    "wait again for the next micro-batch?";
constexpr const char* kIdeal =
    "Hint: how many passes does a rank make in a step when it never waits? A part is a chunk, not "
    "a stage.";
constexpr const char* kTotal =
    "Hint: of which time is it a part: of the work alone, or of the whole step?";

class BubbleFraction : public ultra::test::RandomTest {
 protected:
  /// Small whole numbers that the closed forms are meant for.
  PartCost draw(ScheduleKind kind) {
    const auto whole = [&](std::size_t low, std::size_t high) {
      return static_cast<double>(random.between(low, high));
    };
    const double f = whole(2, 9);
    if (kind == ScheduleKind::kZbV) return {f, f, f};
    if (kind == ScheduleKind::kDualPipeV) return {f, f, whole(1, static_cast<std::size_t>(f))};
    return {f, whole(2, 9), whole(1, 2)};
  }

  static SimulatedStep simulated(const ScheduleChoice& choice, const PipelineShape& shape,
                                 const PartCost& part, double overlapped) {
    const auto schedule = make_schedule(choice, shape.stages, shape.micro_batches);
    CostModel costs = CostModel::equal(schedule.placement.parts(), part);
    costs.overlapped = overlapped;
    return simulate(schedule, costs);
  }
};

TEST_F(BubbleFraction, IsWhatTheSimulatorCounts) {
  for (int round = 0; round < 300; ++round) {
    const auto all = published_schedules();
    ScheduleChoice choice = all[random.between(0, all.size() - 1)];
    choice.interleaved_chunks = random.between(1, 4);
    const std::size_t p = random.between(2, 6);
    const PipelineShape shape{.stages = p, .micro_batches = p * random.between(2, 4)};
    const PartCost part = draw(choice.kind);
    const bool overlaps = choice.kind == ScheduleKind::kDualPipeV;
    const double overlapped = overlaps ? random.pick({1.0, 0.75}) : 1.0;
    SCOPED_TRACE(fmt::format("{}, p {}, m {}, F {}, B {}, W {}", choice.str(), p,
                             shape.micro_batches, part.forward, part.backward_input,
                             part.backward_weight));
    const SimulatedStep step = simulated(choice, shape, part, overlapped);
    const bool by_span =
        choice.kind == ScheduleKind::kZeroBubbleH2 || choice.kind == ScheduleKind::kZbV;
    const double seconds = by_span ? step.longest_span() : step.seconds();
    ASSERT_EQ(bubble_seconds(choice, shape, part, overlapped), seconds - step.ranks.back().busy)
        << kBubble;
    if (overlapped != 1) continue;
    const double r = seconds / step.ideal() - 1;
    ASSERT_NEAR(bubble_over_ideal(choice, shape, part), r, 1e-12) << kIdeal;
    ASSERT_NEAR(bubble_over_total(r), 1 - step.ideal() / seconds, 1e-12) << kTotal;
  }
}

TEST_F(BubbleFraction, OfOneStageIsNothing) {
  for (const ScheduleChoice& choice : published_schedules()) {
    EXPECT_EQ(bubble_seconds(choice, {.stages = 1, .micro_batches = 4}, {}), 0) << kBubble;
  }
  EXPECT_EQ(bubble_over_total(0), 0) << kTotal;
}

}  // namespace
}  // namespace ultra::pipeline_parallel
