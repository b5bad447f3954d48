// Steps of random costs, simulated; and costs that are the same however a model is cut.
//
// Covers: chapters/07_pipeline_parallel/simulate/simulator.hpp
// Covers: chapters/07_pipeline_parallel/simulate/model_costs.hpp

#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"
#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"
#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

SimulatedStep simulate(const ScheduleChoice& choice, const PipelineShape& shape,
                       const PartCost& part = {}, double overlapped = 1) {
  const auto schedule = make_schedule(choice, shape.stages, shape.micro_batches);
  CostModel costs = CostModel::equal(schedule.placement.parts(), part);
  costs.overlapped = overlapped;
  return simulate(schedule, costs);
}

/// The bubble as the schedule's paper counts it.
double bubble_of(const ScheduleChoice& choice, const SimulatedStep& step) {
  const bool by_span =
      choice.kind == ScheduleKind::kZeroBubbleH2 || choice.kind == ScheduleKind::kZbV;
  return (by_span ? step.longest_span() : step.seconds()) - step.ranks.back().busy;
}

/// Costs for which the closed form is meant.
bool is_meant(const ScheduleChoice& choice, const PartCost& part) {
  const bool no_longer = part.backward_weight <= std::min(part.forward, part.backward_input);
  switch (choice.kind) {
    case ScheduleKind::kZeroBubbleH1:
    case ScheduleKind::kZeroBubbleH2:
      return no_longer;
    case ScheduleKind::kZbV:
      return part.forward == part.backward_input && part.forward == part.backward_weight;
    case ScheduleKind::kDualPipeV:
      return no_longer && part.forward == part.backward_input;
    default:
      return true;
  }
}

// Lamy-Poirier 2022: the bubble of interleaved 1F1B, for any number of micro-batches that fill the
// pipeline.
TEST(Simulator, GivesBreadthFirstTheBubbleOfInterleaving) {
  for (const std::size_t p : {1U, 2U, 4U, 7U}) {
    for (const std::size_t v : {1U, 2U, 3U}) {
      ScheduleChoice choice = parse_schedule_choice("breadth-first");
      choice.interleaved_chunks = v;
      const ScheduleChoice same{.kind = ScheduleKind::kInterleaved, .interleaved_chunks = v};
      for (const std::size_t m : {p, p + 1, 3 * p + 2}) {
        const PipelineShape shape{.stages = p, .micro_batches = m};
        const PartCost part{.forward = 3, .backward_input = 4, .backward_weight = 2};
        SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", choice.str(), p, m));
        EXPECT_EQ(bubble_of(choice, simulate(choice, shape, part)),
                  bubble_seconds(same, shape, part));
      }
    }
  }
}

class SimulatorOfRandomCosts : public ultra::test::RandomTest {};

TEST_F(SimulatorOfRandomCosts, GivesTheClosedForms) {
  for (int round = 0; round < 400; ++round) {
    const auto choices = published_schedules();
    const ScheduleChoice choice = choices[random.between(0, choices.size() - 1)];
    const PartCost part{.forward = static_cast<double>(random.between(1, 9)),
                        .backward_input = static_cast<double>(random.between(1, 9)),
                        .backward_weight = static_cast<double>(random.between(1, 9))};
    if (!is_meant(choice, part)) continue;
    const std::size_t p = random.between(1, 9);
    std::size_t m = test::least_micro_batches(choice, p) + random.between(0, 4 * p);
    if (choice.kind == ScheduleKind::kInterleaved) m = (m + p - 1) / p * p;
    const PipelineShape shape{.stages = p, .micro_batches = m};
    const double overlapped = random.pick({1.0, 0.875, 0.75});
    SCOPED_TRACE(fmt::format("{}, p {}, m {}, F {}, B {}, W {}, overlapped {}", choice.str(), p,
                             shape.micro_batches, part.forward, part.backward_input,
                             part.backward_weight, overlapped));
    const bool overlaps = choice.kind == ScheduleKind::kDualPipeV;
    const SimulatedStep step = simulate(choice, shape, part, overlaps ? overlapped : 1);
    if (overlaps && p == 1) continue;
    EXPECT_EQ(bubble_of(choice, step), bubble_seconds(choice, shape, part, overlapped));
    if (overlaps) continue;  // which leaves less work than there is
    EXPECT_EQ(step.ideal(), part.together() * static_cast<double>(m * choice.chunks()));
  }
}

TEST(Simulator, OverlapsNoTwoActionsOfARankAndWaitsForMessages) {
  test::for_every_schedule([](const ScheduleChoice& choice, const PipelineShape& shape) {
    const auto schedule = make_schedule(choice, shape.stages, shape.micro_batches);
    CostModel costs = CostModel::equal(schedule.placement.parts());
    costs.link = {.latency = 0.5, .seconds_per_byte = 0.125};
    costs.message_bytes = 2;
    const SimulatedStep step = simulate(schedule, costs);
    EXPECT_EQ(step.messages.size(), messages_of(choice, shape));
    for (const TimedMessage& message : step.messages) {
      EXPECT_EQ(message.end - message.begin, 0.75);
    }
    for (std::size_t stage = 0; stage < shape.stages; ++stage) {
      const auto& actions = step.ranks[stage].actions;
      ASSERT_EQ(actions.size(), schedule.ranks[stage].size());
      for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
        const bool is_pair = std::ranges::binary_search(schedule.overlapped[stage], i);
        EXPECT_EQ(actions[i].action, schedule.ranks[stage][i]);
        EXPECT_TRUE(is_pair || actions[i].end <= actions[i + 1].begin);
      }
      if (choice.row().peak == nullptr) continue;
      EXPECT_EQ(step.ranks[stage].peak_live, peak_activations_of(choice, shape, stage));
    }
  });
}

// Two stages, one micro-batch: every hop is waited for.
TEST(Simulator, CountsMessagesThatNothingHides) {
  const auto schedule = make_schedule({}, 2, 1);
  CostModel costs = CostModel::equal(2);
  costs.link = {.latency = 4, .seconds_per_byte = 2};
  costs.message_bytes = 8;
  EXPECT_EQ(simulate(schedule, costs).seconds(), 6 + 2 * (4 + 16));
}

TEST(Simulator, CountsBytesOfActivations) {
  const PartCost part{.saved_bytes = 10, .saved_bytes_after_b = 4};
  const auto peak = [&](ScheduleKind kind, std::size_t stage) {
    return simulate({.kind = kind}, {.stages = 4, .micro_batches = 8}, part)
        .ranks[stage]
        .peak_bytes;
  };
  EXPECT_EQ(peak(ScheduleKind::kAfab, 3), 80);
  EXPECT_EQ(peak(ScheduleKind::kOneFOneB, 1), 30);
  // Qi et al. 2023, section 2.1.1: of stage s, p - s whole activations and s of those that W needs.
  for (std::size_t s = 0; s < 4; ++s) {
    const auto behind = static_cast<double>(s);
    EXPECT_EQ(peak(ScheduleKind::kZeroBubbleH1, s), (4 - behind) * 10 + behind * 4) << s;
    EXPECT_EQ(peak(ScheduleKind::kZeroBubbleH2, s), (7 - 2 * behind) * 10 + 2 * behind * 4) << s;
  }
}

TEST(Simulator, AddsUpdatesToAsynchronousSteps) {
  const auto schedule = make_schedule({.kind = ScheduleKind::kPipedreamAsync}, 1, 4);
  CostModel costs = CostModel::equal(1);
  costs.update = 0.5;
  EXPECT_EQ(simulate(schedule, costs).seconds(), 4 * 3.5);
}

TEST(ModelCosts, AreTheSameHoweverTheModelIsCut) {
  const ModelCosts model{.stage = {.forward = 1,
                                   .backward_input = 2,
                                   .backward_weight = 3,
                                   .saved_bytes = 4,
                                   .saved_bytes_after_b = 2},
                         .embedding = 0.25,
                         .head = 0.5};
  for (const Placement& placement :
       {Placement::loop(4), Placement::loop(4, 2), Placement::v_shape(4)}) {
    const CostModel costs = model.on(placement);
    double together = 0;
    double saved = 0;
    for (const PartCost& part : costs.parts) {
      together += part.together();
      saved += part.saved_bytes;
    }
    EXPECT_DOUBLE_EQ(together, 6 * 4.75);
    EXPECT_DOUBLE_EQ(saved, 4 * 4);
    const double chunks = static_cast<double>(placement.chunks());
    EXPECT_DOUBLE_EQ(costs.parts.front().forward, 1 / chunks + 0.25);
    EXPECT_DOUBLE_EQ(costs.parts.back().backward_weight, 3 / chunks + 1.5);
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
