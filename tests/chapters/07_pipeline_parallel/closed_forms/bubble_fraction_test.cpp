#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

#include <gtest/gtest.h>

namespace ultra::pipeline_parallel {
namespace {

TEST(BubbleFraction, IsThatOfTheTextbook) {
  const PipelineShape shape{.stages = 8, .micro_batches = 32};
  EXPECT_EQ(bubble_over_ideal({.kind = ScheduleKind::kOneFOneB}, shape, {}), 7.0 / 32);
  EXPECT_EQ(
      bubble_over_ideal({.kind = ScheduleKind::kInterleaved, .interleaved_chunks = 4}, shape, {}),
      7.0 / (32 * 4));
  EXPECT_EQ(bubble_over_ideal({.kind = ScheduleKind::kNaive}, shape, {}), 7.0);
}

// The rates of the table in sail-sg's repository: of the whole time, with F = B = W.
TEST(BubbleFraction, IsThatOfTheZeroBubbleTable) {
  const PipelineShape shape{.stages = 4, .micro_batches = 8};
  const double b =
      bubble_over_total(bubble_over_ideal({.kind = ScheduleKind::kOneFOneB}, shape, {}));
  EXPECT_DOUBLE_EQ(b, 3.0 / (8 + 3));
  EXPECT_EQ(bubble_seconds({.kind = ScheduleKind::kZeroBubbleH1}, shape, {}),
            bubble_seconds({.kind = ScheduleKind::kOneFOneB}, shape, {}) / 3);
  EXPECT_EQ(bubble_seconds({.kind = ScheduleKind::kZeroBubbleH2}, shape, {}), 0);
  EXPECT_EQ(bubble_seconds({.kind = ScheduleKind::kZbV}, shape, {}), 0);
}

// The table of deepseek-ai/DualPipe: (PP / 2 - 1) (F&B + B - 3 W), B with W in it; 8 parts on 4
// ranks.
TEST(BubbleFraction, IsThatOfTheDualPipeTable) {
  const PartCost part{.forward = 2, .backward_input = 2, .backward_weight = 1};
  EXPECT_EQ(bubble_seconds({.kind = ScheduleKind::kDualPipeV}, {.stages = 4, .micro_batches = 10},
                           part, 0.8),
            (8 / 2 - 1) * (0.8 * 5 + 3 - 3 * 1));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
