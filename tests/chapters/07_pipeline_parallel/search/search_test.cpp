// Schedules that are searched for.
//
// Covers: chapters/07_pipeline_parallel/search/search.hpp
// Covers: chapters/07_pipeline_parallel/search/branch_and_bound.hpp

#include <csignal>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "chapters/07_pipeline_parallel/search/branch_and_bound.hpp"
#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"
#include "chapters/07_pipeline_parallel/search/search.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "common/base/interrupt.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::ActionKind;
using train::StepSchedule;

class Search : public ultra::test::RandomTest {
 protected:
  SearchQuestion draw() {
    SearchQuestion question;
    question.stages = random.between(1, 6);
    question.micro_batches = random.between(1, 12);
    question.costs.stage = {.forward = random.uniform(0.5, 2),
                            .backward_input = random.uniform(0.5, 2),
                            .backward_weight = random.uniform(0.2, 2),
                            .saved_bytes = 1,
                            .saved_bytes_after_b = random.uniform(0, 1)};
    question.costs.head = random.uniform(0, 1);
    question.costs.embedding = random.uniform(0, 0.5);
    question.costs.link.latency = random.pick({0.0, 0.3});
    question.most_bytes = static_cast<double>(random.between(1, 12));
    question.most_nodes = 20'000;
    question.most_tries = 300;
    return question;
  }
};

TEST_F(Search, IsNeverWorseThanAPublishedScheduleWithinTheLimit) {
  for (int round = 0; round < 60; ++round) {
    const SearchQuestion question = draw();
    SCOPED_TRACE(fmt::format("p {}, m {}, room for {}", question.stages, question.micro_batches,
                             question.most_bytes));
    const FoundSchedule found = search_schedule(question);
    EXPECT_NO_THROW(expect_valid(found.schedule));
    EXPECT_EQ(found.schedule.name, "search");
    EXPECT_TRUE(fits(found.step, question.most_bytes));
    for (const ScheduleChoice& choice : published_schedules()) {
      const bool is_synchronous = choice.kind != ScheduleKind::kPipedreamAsync;
      const bool is_possible = choice.kind != ScheduleKind::kInterleaved ||
                               question.micro_batches % question.stages == 0;
      if (!is_synchronous || !is_possible) continue;
      const auto schedule = make_schedule(choice, question.stages, question.micro_batches);
      const auto step = simulate(schedule, question.costs.on(schedule.placement));
      if (!fits(step, question.most_bytes)) continue;
      EXPECT_LE(found.step.seconds(), step.seconds()) << choice.str();
      EXPECT_LE(found.best_published, step.seconds()) << choice.str();
    }
  }
}

// The head takes half a stage more: W of the others fills what 1F1B waits for.
TEST(SearchOfAnUnevenModel, BeatsWhatPapersHavePublished) {
  SearchQuestion question{.stages = 4, .micro_batches = 8, .most_bytes = 4};
  question.costs.head = 0.5;
  const FoundSchedule found = search_schedule(question);
  const auto published = make_schedule({.kind = ScheduleKind::kZeroBubbleH1}, 4, 8);
  EXPECT_LT(found.step.seconds(),
            simulate(published, question.costs.on(published.placement)).seconds());
  // The last rank's eight times F, B and W of one and a half stages, behind three hops.
  EXPECT_GE(found.step.seconds(), 8 * 4.5);
  EXPECT_LE(found.step.seconds(), 8 * 4.5 + 3);
}

// A V has half of each stage at both ends: not where a stage is one layer.
TEST(SearchOfOneChunk, CutsTheModelOnceForEachStage) {
  for (const std::size_t micro_batches : {2U, 4U, 8U}) {
    SearchQuestion question{.stages = 4, .micro_batches = micro_batches, .most_bytes = 7};
    const FoundSchedule two = search_schedule(question);
    EXPECT_EQ(two.schedule.placement.chunks(), 2U) << "the best of all";
    question.most_chunks = 1;
    const FoundSchedule one = search_schedule(question);
    EXPECT_EQ(one.schedule.placement.chunks(), 1U);
    EXPECT_NO_THROW(expect_valid(one.schedule));
    const auto published = make_schedule({.kind = ScheduleKind::kZeroBubbleH1}, 4, micro_batches);
    EXPECT_LE(one.step.seconds(),
              simulate(published, question.costs.on(published.placement)).seconds());
    EXPECT_GE(one.step.seconds(), two.step.seconds());
  }
}

TEST(SearchWithoutRoom, SaysSo) {
  EXPECT_THAT(
      ultra::test::message_of<ConfigError>([] {
        static_cast<void>(search_schedule({.stages = 3, .micro_batches = 2, .most_bytes = 0.5}));
      }),
      ::testing::HasSubstr("no schedule of 3 stages keeps to 0.5 times what a micro-batch leaves"));
}

TEST(SearchOfTooMuch, IsRefusedAtOnce) {
  EXPECT_THAT(ultra::test::message_of<ConfigError>(
                  [] { static_cast<void>(search_schedule({.stages = 64, .micro_batches = 512})); }),
              ::testing::HasSubstr("64 stages and 512 micro-batches are 32768 forward passes"));
}

TEST(SearchThatIsInterrupted, Stops) {
  const InterruptGuard guard;
  std::raise(SIGINT);
  EXPECT_THROW(static_cast<void>(search_schedule({.stages = 2, .micro_batches = 4})), Interrupted);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Every order of F, B and W of so many micro-batches.
void all_lists(std::size_t m, std::size_t f, std::size_t b, std::size_t w, StepSchedule& list,
               std::vector<StepSchedule>& all) {
  if (w == m) {
    all.push_back(list);
    return;
  }
  const auto with = [&](ActionKind kind, std::size_t at, std::size_t df, std::size_t db,
                        std::size_t dw) {
    list.push_back({.kind = kind, .micro_batch = at});
    all_lists(m, f + df, b + db, w + dw, list, all);
    list.pop_back();
  };
  if (f < m) with(ActionKind::kForward, f, 1, 0, 0);
  if (b < f) with(ActionKind::kBackwardInput, b, 0, 1, 0);
  if (w < b) with(ActionKind::kBackwardWeight, w, 0, 0, 1);
}

class BranchAndBound : public ultra::test::RandomTest {
 protected:
  CostModel draw(std::size_t stages) {
    CostModel costs = CostModel::equal(stages);
    for (PartCost& part : costs.parts) {
      part = {.forward = static_cast<double>(random.between(1, 5)),
              .backward_input = static_cast<double>(random.between(1, 5)),
              .backward_weight = static_cast<double>(random.between(1, 5)),
              .saved_bytes = 2,
              .saved_bytes_after_b = static_cast<double>(random.between(0, 2))};
    }
    costs.link.latency = static_cast<double>(random.between(0, 2));
    return costs;
  }

  /// The least seconds of all schedules, one by one.
  static double least(std::size_t stages, std::size_t m, const CostModel& costs, double most) {
    std::vector<StepSchedule> lists;
    StepSchedule list;
    all_lists(m, 0, 0, 0, list, lists);
    PipelineSchedule schedule{.name = "all",
                              .placement = Placement::loop(stages),
                              .micro_batches = m,
                              .ranks = std::vector<StepSchedule>(stages)};
    std::vector<std::size_t> at(stages, 0);
    for (double best = kInfinity;;) {
      for (std::size_t s = 0; s < stages; ++s) schedule.ranks[s] = lists[at[s]];
      if (const auto seconds = seconds_of(schedule, costs, most)) best = std::min(best, *seconds);
      std::size_t s = 0;
      while (s < stages && ++at[s] == lists.size()) at[s++] = 0;
      if (s == stages) return best;
    }
  }
};

// All 5 or 42 lists of 2 or 3 micro-batches on every stage, with links that take time and with
// memory for few of them.
TEST_F(BranchAndBound, FindsWhatTryingEverythingFinds) {
  struct Size {
    std::size_t stages;
    std::size_t micro_batches;
    int rounds;
  };
  for (const auto& [stages, m, rounds] :
       {Size{2, 2, 40}, Size{3, 2, 30}, Size{2, 3, 20}, Size{4, 2, 4}, Size{3, 3, 1}}) {
    for (int round = 0; round < rounds; ++round) {
      const CostModel costs = draw(stages);
      const double most = random.pick({2.0, 4.0, 5.0, kInfinity});
      SCOPED_TRACE(fmt::format("{} stages, {} micro-batches, {} bytes", stages, m, most));
      const double expected = least(stages, m, costs, most);
      const Placement line = Placement::loop(stages);
      const BoundedSearch found = branch_and_bound(line, m, costs, most, kInfinity, 1'000'000);
      ASSERT_TRUE(found.is_complete);
      ASSERT_TRUE(found.better.has_value());
      EXPECT_EQ(seconds_of(*found.better, costs, most), expected);
      EXPECT_NO_THROW(expect_valid(*found.better));
      const BoundedSearch none = branch_and_bound(line, m, costs, most, expected, 1'000'000);
      EXPECT_FALSE(none.better.has_value()) << "nothing is better than the best";
      EXPECT_TRUE(none.is_complete);
    }
  }
}

TEST_F(BranchAndBound, AgreesWithTheSimulatorOnFreeLinks) {
  for (int round = 0; round < 20; ++round) {
    const std::size_t stages = random.between(1, 4);
    CostModel costs = draw(stages);
    costs.link = {};
    const auto found = branch_and_bound(Placement::loop(stages), random.between(1, 6), costs,
                                        kInfinity, kInfinity, 20'000);
    ASSERT_TRUE(found.better.has_value());
    EXPECT_EQ(simulate(*found.better, costs).seconds(),
              seconds_of(*found.better, costs, kInfinity));
  }
}

TEST_F(BranchAndBound, GivesUpWhenItIsTold) {
  const auto found = branch_and_bound(Placement::loop(8), 8, CostModel::equal(8), 8, kInfinity, 10);
  EXPECT_FALSE(found.is_complete);
  EXPECT_EQ(found.nodes, 10U);
  EXPECT_FALSE(
      branch_and_bound(Placement::loop(2), 2, CostModel::equal(2), 8, kInfinity, 0).is_complete);
}

}  // namespace
}  // namespace ultra::pipeline_parallel
