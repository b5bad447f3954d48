// Contract of exercise 07.3: the bubble of small stages.
#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"

#include "tests/exercises/07_pipeline_parallel/list_of_stages.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr const char* kRuns =
    "Hint: every micro-batch passes every chunk forward once and backward once, and the ranks must "
    "not wait for each other: the message says what each waits for. In which order does a "
    "micro-batch come back through the chunks?";
constexpr const char* kOrder = "Hint: each chunk takes micro-batches in their order.";
constexpr const char* kSlow =
    "Hint: a rank waits although it could work: of which chunk is the next pass, and is the "
    "warm-up long enough?";
constexpr const char* kMessages =
    "Hint: on links that take time a rank waits for messages in every round: what could it do "
    "while one is on its way? Count the passes of the warm-up for each stage behind.";
constexpr const char* kTooMany =
    "Hint: the rank keeps more activations than it has to: which forward passes before the first "
    "backward pass does nobody wait for?";

class InterleavedList : public ::testing::Test {
 protected:
  static void expect_right(std::size_t p, std::size_t v, std::size_t m) {
    SCOPED_TRACE(fmt::format("{} stages, {} chunks, {} micro-batches", p, v, m));
    const PipelineSchedule schedule =
        test::schedule_of(Placement::loop(p, v), m, [&](std::size_t stage) {
          return interleaved_list({.stage = stage, .stages = p, .chunks = v}, m);
        });
    ASSERT_EQ(test::why_not(schedule), "") << kRuns;
    for (const auto& list : schedule.ranks) {
      for (std::size_t chunk = 0; chunk < v; ++chunk) {
        for (const auto kind : {train::ActionKind::kForward, train::ActionKind::kBackward}) {
          EXPECT_TRUE(std::ranges::is_sorted(test::order_of(list, kind, chunk))) << kOrder;
        }
      }
    }
    // All passes of a rank, and p - 1 hops of a chunk's size.
    CostModel costs = CostModel::equal(p * v);
    const double seconds = 3.0 * static_cast<double>(m * v + p - 1);
    EXPECT_EQ(simulate(schedule, costs).seconds(), seconds) << kSlow;
    // Nothing hides the messages of the first micro-batch's way there and of the last one's back.
    costs.link.latency = 0.25;
    const double hops = p == 1 ? 0 : 2 * static_cast<double>(p * v - 1);
    EXPECT_EQ(simulate(schedule, costs).seconds(), seconds + hops * 0.25) << kMessages;
    for (std::size_t stage = 0; stage < p; ++stage) {
      const std::size_t most = (v - 1) * p + 2 * (p - stage - 1) + 1;
      EXPECT_LE(test::kept_by(schedule.ranks[stage]), std::min(most, m * v))
          << "stage " << stage << ": " << kTooMany;
    }
  }
};

TEST_F(InterleavedList, HasTheBubbleOfStagesAsSmallAsItsChunks) {
  for (const std::size_t p : {1U, 2U, 3U, 4U, 8U}) {
    for (const std::size_t v : {1U, 2U, 3U, 4U}) {
      for (const std::size_t rounds : {1U, 2U, 4U}) expect_right(p, v, rounds * p);
    }
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
