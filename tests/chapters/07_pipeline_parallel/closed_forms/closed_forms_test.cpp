// Bubbles, activations and messages in the figures of the papers.
//
// Covers: chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp
// Covers: chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp

#include <gtest/gtest.h>

#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"
#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"

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

std::size_t peak(ScheduleKind kind, std::size_t stages, std::size_t micro_batches) {
  std::size_t most = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    most = std::max(
        most,
        peak_activations_of({.kind = kind}, {.stages = stages, .micro_batches = micro_batches}, s));
  }
  return most;
}

// Tables of Qi et al. 2023 and of deepseek-ai/DualPipe.
TEST(PeakActivations, AreThoseOfThePapers) {
  EXPECT_EQ(peak(ScheduleKind::kAfab, 4, 20), 20U);
  EXPECT_EQ(peak(ScheduleKind::kOneFOneB, 4, 20), 4U);
  EXPECT_EQ(peak(ScheduleKind::kZeroBubbleH1, 4, 20), 4U);
  EXPECT_EQ(peak(ScheduleKind::kZeroBubbleH2, 4, 20), 7U);
  EXPECT_EQ(peak(ScheduleKind::kZbV, 4, 20), 2 * 4U) << "of half a stage each";
  EXPECT_EQ(peak(ScheduleKind::kDualPipeV, 4, 20), 8 + 1U) << "PP + 1";
}

// Twice the messages of 1F1B, but for the hop that a V makes within its last rank.
TEST(Messages, OfAVAreTwiceThoseOfALine) {
  const PipelineShape shape{.stages = 4, .micro_batches = 10};
  EXPECT_EQ(messages_of({.kind = ScheduleKind::kOneFOneB}, shape), 2 * 10 * 3U);
  EXPECT_EQ(messages_of({.kind = ScheduleKind::kZbV}, shape), 2 * 10 * 6U);
  EXPECT_EQ(messages_of({.kind = ScheduleKind::kInterleaved}, shape), 2 * 10 * 7U);
  EXPECT_EQ(messages_of({.kind = ScheduleKind::kInterleaved}, {.stages = 1, .micro_batches = 10}),
            0U);
}

}  // namespace
}  // namespace ultra::pipeline_parallel
