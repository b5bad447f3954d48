// Contract of exercise 07.2: AFAB's bubble with the activations that it takes.
#include "chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp"

#include "tests/exercises/07_pipeline_parallel/list_of_stages.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr const char* kRuns =
    "Hint: every micro-batch passes forward once and backward once, on every stage, and the stages "
    "must not wait for each other: the message says what each waits for.";
constexpr const char* kOrder = "Hint: micro-batches pass in their order, forward and backward.";
constexpr const char* kTooShort =
    "Hint: a stage has nothing to do while it could pass a further micro-batch forward: its "
    "warm-up is too short.";
constexpr const char* kTooMany =
    "Hint: the step ends no earlier for it, but the stage keeps more activations than it has to: "
    "its warm-up is too long.";

class OneFOneBList : public ::testing::Test {
 protected:
  static void expect_right(std::size_t p, std::size_t m) {
    SCOPED_TRACE(fmt::format("{} stages, {} micro-batches", p, m));
    const PipelineSchedule schedule = test::schedule_of(
        Placement::loop(p), m, [&](std::size_t stage) { return one_f_one_b_list(stage, p, m); });
    ASSERT_EQ(test::why_not(schedule), "") << kRuns;
    for (const auto& list : schedule.ranks) {
      EXPECT_TRUE(std::ranges::is_sorted(test::order_of(list, train::ActionKind::kBackward)))
          << kOrder;
    }
    // AFAB: m passes, and p - 1 hops there and back; each stage from the beginning of its first.
    const SimulatedStep step = simulate(schedule, CostModel::equal(p));
    EXPECT_EQ(step.seconds(), 3.0 * static_cast<double>(m + p - 1)) << kTooShort;
    for (std::size_t stage = 0; stage < p; ++stage) {
      // So many are on the stages behind, or on this one, when the first one comes back.
      EXPECT_LE(test::kept_by(schedule.ranks[stage]), std::min(p - stage, m))
          << "stage " << stage << ": " << kTooMany;
    }
  }
};

TEST_F(OneFOneBList, HasTheBubbleOfAfabAndFewerActivations) {
  for (const std::size_t p : {1U, 2U, 3U, 4U, 8U}) {
    for (const std::size_t m : {p, p + 1, 2 * p, 4 * p + 3, (p + 1) / 2}) expect_right(p, m);
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
