// Contract of exercise 07.1: all forward, then all backward, through one chunk and through several.
#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"

#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"
#include "tests/exercises/07_pipeline_parallel/list_of_stages.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::ActionKind;

constexpr const char* kCount =
    "Hint: every micro-batch passes forward once and backward once, the last one too.";
constexpr const char* kWhole =
    "Hint: the backward passes are whole (kBackward), and a rank's chunks are numbered from 0.";
constexpr const char* kAllForward = "Hint: no backward pass before the last forward pass.";
constexpr const char* kOrder =
    "Hint: micro-batches pass in their order, forward and backward: so gradients are summed in the "
    "same order as in every other schedule.";
constexpr const char* kChunks =
    "Hint: on the way back a micro-batch comes to the last chunk first: turn the order of the "
    "chunks round, not that of the micro-batches.";
constexpr const char* kOneByOne =
    "Hint: all micro-batches pass one chunk before the next one begins, there and back.";

/// How often a list goes from one chunk to another.
std::size_t changes_of_chunk(const train::StepSchedule& list) {
  std::size_t changes = 0;
  for (std::size_t i = 1; i < list.size(); ++i) changes += list[i].chunk != list[i - 1].chunk;
  return changes;
}

void expect_right(const train::StepSchedule& list, std::size_t chunks, std::size_t m) {
  SCOPED_TRACE(fmt::format("{} chunks, {} micro-batches", chunks, m));
  std::vector<std::size_t> all(m);
  std::iota(all.begin(), all.end(), std::size_t{0});
  ASSERT_EQ(list.size(), 2 * chunks * m) << kCount;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ASSERT_LT(list[i].chunk, chunks) << kWhole;
    ASSERT_EQ(list[i].kind, i < chunks * m ? ActionKind::kForward : ActionKind::kBackward)
        << list[i].str() << ": " << kAllForward << " " << kWhole;
  }
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    EXPECT_EQ(test::order_of(list, ActionKind::kForward, chunk), all) << kOrder;
    EXPECT_EQ(test::order_of(list, ActionKind::kBackward, chunk), all) << kOrder;
  }
  if (m > 0) {
    EXPECT_EQ(changes_of_chunk(list), 2 * (chunks - 1)) << kOneByOne;
  }
}

TEST(AfabList, HasAllForwardPassesAndThenAllBackwardPasses) {
  for (const std::size_t m : {0U, 1U, 2U, 3U, 8U, 17U}) expect_right(afab_list(m), 1, m);
}

class BreadthFirstList : public ultra::test::RandomTest {};

TEST_F(BreadthFirstList, PassesEveryChunkWithAllMicroBatchesThereAndBack) {
  for (std::size_t chunks = 1; chunks <= 4; ++chunks) {
    const std::size_t m = random.between(1, 9);
    expect_right(breadth_first_list(chunks, m), chunks, m);
  }
}

/// The lists of all ranks together: nobody waits for ever, and the bubble is the interleaved one's.
TEST_F(BreadthFirstList, CanBeRunAndHasABubbleOfSmallStages) {
  for (int trial = 0; trial < 6; ++trial) {
    const std::size_t stages = random.between(2, 5);
    const std::size_t chunks = random.between(2, 4);
    const std::size_t m = random.between(stages, 12);
    SCOPED_TRACE(fmt::format("{} stages, {} chunks, {} micro-batches", stages, chunks, m));
    const PipelineSchedule schedule =
        test::schedule_of(Placement::loop(stages, chunks), m,
                          [&](std::size_t) { return breadth_first_list(chunks, m); });
    ASSERT_EQ(test::why_not(schedule), "") << kChunks;
    const double bubble =
        simulate(schedule, ModelCosts{}.on(schedule.placement)).bubble_over_ideal();
    EXPECT_NEAR(bubble, static_cast<double>(stages - 1) / static_cast<double>(chunks * m), 1e-9)
        << kChunks << " " << kOneByOne;
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
