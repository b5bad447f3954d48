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

TEST(Simulator, GivesTheClosedFormsExactly) {
  for (const ScheduleChoice& choice : published_schedules()) {
    for (const std::size_t p : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 64U}) {
      const std::size_t least = test::least_micro_batches(choice, p);
      for (const std::size_t m : {least, least + p, p == 64 ? 1024 : 5 * p}) {
        if (choice.kind == ScheduleKind::kInterleaved && m % p != 0) continue;
        const PipelineShape shape{.stages = p, .micro_batches = m};
        SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", choice.str(), p, m));
        const SimulatedStep step = simulate(choice, shape);
        EXPECT_EQ(bubble_of(choice, step), bubble_seconds(choice, shape, {}));
        EXPECT_EQ(step.ideal(), 3.0 * static_cast<double>(m * choice.chunks()));
      }
    }
  }
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

TEST_F(SimulatorOfRandomCosts, GivesTheClosedFormsToo) {
  for (int round = 0; round < 400; ++round) {
    const auto choices = published_schedules();
    const ScheduleChoice choice = choices[random.between(0, choices.size() - 1)];
    const PartCost part{.forward = static_cast<double>(random.between(1, 9)),
                        .backward_input = static_cast<double>(random.between(1, 9)),
                        .backward_weight = static_cast<double>(random.between(1, 9))};
    if (!is_meant(choice, part)) continue;
    const std::size_t p = random.between(1, 9);
    const PipelineShape shape{.stages = p, .micro_batches = p * random.between(2, 5)};
    const double overlapped = random.pick({1.0, 0.875, 0.75});
    SCOPED_TRACE(fmt::format("{}, p {}, m {}, F {}, B {}, W {}, overlapped {}", choice.str(), p,
                             shape.micro_batches, part.forward, part.backward_input,
                             part.backward_weight, overlapped));
    const bool overlaps = choice.kind == ScheduleKind::kDualPipeV;
    const SimulatedStep step = simulate(choice, shape, part, overlaps ? overlapped : 1);
    if (overlaps && p == 1) continue;
    EXPECT_EQ(bubble_of(choice, step), bubble_seconds(choice, shape, part, overlapped));
  }
}

// Narayanan et al. 2021 with a backward pass of two forward passes; Qi et al. 2023 with F = B = W.
TEST(Simulator, GivesPublishedBubbleFractions) {
  struct Row {
    std::size_t p;
    std::size_t m;
    double one_f_one_b;
    double of_total;
    double interleaved;
    double interleaved_of_total;
    double zero_bubble_h1;
  };
  constexpr Row kRows[] = {{4, 8, 0.3750, 0.2727, 0.1875, 0.1579, 0.1250},
                           {4, 32, 0.09375, 0.0857, 0.0469, 0.0448, 0.0312},
                           {8, 8, 0.8750, 0.4667, 0.4375, 0.3043, 0.2917},
                           {8, 32, 0.21875, 0.1795, 0.1094, 0.0986, 0.0729},
                           {16, 16, 0.9375, 0.4839, 0.4688, 0.3191, 0.3125},
                           {16, 64, 0.2344, 0.1899, 0.1172, 0.1049, 0.0781}};
  constexpr double kPrinted = 0.5e-4 + 1e-12;  // four digits
  for (const Row& row : kRows) {
    const PipelineShape shape{.stages = row.p, .micro_batches = row.m};
    for (const ScheduleKind kind : {ScheduleKind::kAfab, ScheduleKind::kOneFOneB}) {
      const SimulatedStep step = simulate({.kind = kind}, shape);
      EXPECT_NEAR(step.bubble_over_ideal(), row.one_f_one_b, kPrinted);
      EXPECT_NEAR(step.bubble_over_total(), row.of_total, kPrinted);
    }
    const SimulatedStep interleaved = simulate({.kind = ScheduleKind::kInterleaved}, shape);
    EXPECT_NEAR(interleaved.bubble_over_ideal(), row.interleaved, kPrinted);
    EXPECT_NEAR(interleaved.bubble_over_total(), row.interleaved_of_total, kPrinted);
    EXPECT_NEAR(simulate({.kind = ScheduleKind::kZeroBubbleH1}, shape).bubble_over_ideal(),
                row.zero_bubble_h1, kPrinted);
  }
}

// The bars of the Ultra-Scale Playbook's chart for 8 stages: 7 / (m v), printed with two digits. It
// has bars for m = 1 too, which no interleaved schedule of 8 stages has.
TEST(Simulator, GivesThePlaybooksChartOfBubbleSizes) {
  constexpr double kPrinted = 0.005 + 1e-12;
  const auto ratio = [](std::size_t m, std::size_t v) {
    const ScheduleChoice choice{
        .kind = v == 1 ? ScheduleKind::kOneFOneB : ScheduleKind::kInterleaved,
        .interleaved_chunks = v};
    return simulate(choice, {.stages = 8, .micro_batches = m}).bubble_over_ideal();
  };
  EXPECT_NEAR(ratio(1, 1), 7.00, kPrinted);
  EXPECT_NEAR(ratio(8, 1), 0.88, kPrinted);
  EXPECT_NEAR(ratio(32, 1), 0.22, kPrinted);
  EXPECT_NEAR(ratio(16, 4), 0.11, kPrinted);
  EXPECT_NEAR(ratio(32, 8), 0.03, kPrinted);
  for (const std::size_t m : {8U, 16U, 32U}) {
    for (const std::size_t v : {1U, 2U, 4U, 8U}) {
      EXPECT_NEAR(ratio(m, v), 7.0 / static_cast<double>(m * v), 1e-12) << m << " " << v;
    }
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

// AFAB: while a message travels, the next micro-batch is computed. A link that is slower than a
// pass sets the pace.
TEST(Simulator, HidesMessagesBehindPassesUnlessTheLinkIsSlower) {
  const auto schedule = make_schedule({.kind = ScheduleKind::kAfab}, 2, 8);
  CostModel costs = CostModel::equal(2, {.forward = 1, .backward_input = 1, .backward_weight = 0});
  costs.message_bytes = 1;
  costs.link.seconds_per_byte = 0.5;
  EXPECT_EQ(simulate(schedule, costs).seconds(), 2 * (8 + 1 + 0.5));
  costs.link.seconds_per_byte = 3;
  EXPECT_EQ(simulate(schedule, costs).seconds(), 2 * (1 + 8 * 3 + 1));
}

// 1F1B needs every message at once: on slow links its ranks wait in every round of micro-batches.
// Interleaved with one chunk passes a micro-batch more forward for each stage behind, and waits
// only for the first one's way there and the last one's back.
TEST(Simulator, ShowsWhatAShortWarmupCostsOnSlowLinks) {
  constexpr double kLatency = 0.25;
  for (const std::size_t p : {2U, 4U, 8U}) {
    const auto seconds = [&](const ScheduleChoice& choice, std::size_t m) {
      const auto schedule = make_schedule(choice, p, m);
      CostModel costs = CostModel::equal(p);
      costs.link.latency = kLatency;
      return simulate(schedule, costs).seconds();
    };
    const ScheduleChoice longer{.kind = ScheduleKind::kInterleaved, .interleaved_chunks = 1};
    const auto hops = static_cast<double>(2 * (p - 1));
    for (const std::size_t m : {p, 2 * p, 4 * p}) {
      const double free = 3.0 * static_cast<double>(m + p - 1);
      EXPECT_EQ(seconds(longer, m), free + hops * kLatency);
      const double of_1f1b = seconds({.kind = ScheduleKind::kOneFOneB}, m);
      EXPECT_GE(of_1f1b, seconds(longer, m));
      const double of_half = seconds({.kind = ScheduleKind::kOneFOneB}, m / 2);
      const double work = 3.0 * static_cast<double>(m - m / 2);
      EXPECT_TRUE(m == p || of_1f1b > of_half + work) << "more micro-batches wait longer";
    }
  }
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
