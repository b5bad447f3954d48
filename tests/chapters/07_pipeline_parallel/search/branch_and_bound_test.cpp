#include "chapters/07_pipeline_parallel/search/branch_and_bound.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "chapters/07_pipeline_parallel/search/pass_clock.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "tests/support/random.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::ActionKind;
using train::StepSchedule;

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
