#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"

#include <gtest/gtest.h>

namespace ultra::pipeline_parallel {
namespace {

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
