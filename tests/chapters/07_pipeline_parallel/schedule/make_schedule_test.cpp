#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"

#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

std::string text_of(ScheduleKind kind, std::size_t stages, std::size_t micro_batches) {
  return text_of(make_schedule({.kind = kind}, stages, micro_batches));
}

TEST(MakeSchedule, MakesSchedulesThatAreValid) {
  test::for_every_schedule([](const ScheduleChoice& choice, const PipelineShape& shape) {
    const auto schedule = make_schedule(choice, shape.stages, shape.micro_batches);
    EXPECT_NO_THROW(expect_valid(schedule));
    EXPECT_EQ(schedule.name, choice.str());
    EXPECT_EQ(schedule.placement.chunks(), choice.chunks());
    for (const auto& list : schedule.ranks) {
      EXPECT_NO_THROW(train::expect_complete(list, shape.micro_batches, choice.chunks()));
    }
  });
}

TEST(MakeSchedule, DrawsTheFiguresOfThePapers) {
  EXPECT_EQ(text_of(ScheduleKind::kNaive, 2, 2),
            "# naive\nplacement loop\n"
            "F0 BW0 F1 BW1\n"
            "F0 BW0 F1 BW1\n");
  EXPECT_EQ(text_of(ScheduleKind::kOneFOneB, 3, 4),
            "# 1f1b\nplacement loop\n"
            "F0 F1 F2 BW0 F3 BW1 BW2 BW3\n"
            "F0 F1 BW0 F2 BW1 F3 BW2 BW3\n"
            "F0 BW0 F1 BW1 F2 BW2 F3 BW3\n");
  EXPECT_EQ(text_of(ScheduleKind::kInterleaved, 2, 4),
            "# interleaved:2\nplacement loop\n"
            "F0 F1 F0.1 F1.1 F2 BW0.1 F3 BW1.1 F2.1 BW0 F3.1 BW1 BW2.1 BW3.1 BW2 BW3\n"
            "F0 F1 F0.1 BW0.1 F1.1 BW1.1 F2 BW0 F3 BW1 F2.1 BW2.1 F3.1 BW3.1 BW2 BW3\n");
  EXPECT_EQ(text_of(parse_schedule_choice("breadth-first").kind, 2, 2),
            "# breadth-first:2\nplacement loop\n"
            "F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1\n"
            "F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1\n");
  EXPECT_EQ(text_of(ScheduleKind::kPipedreamAsync, 2, 2),
            "# pipedream-async\nplacement loop\n"
            "F0 F1 BW0 U0 BW1 U1\n"
            "F0 BW0 U0 F1 BW1 U1\n");
}

// Figures 2 and 3 of Qi et al. 2023.
TEST(MakeSchedule, WarmsZeroBubbleUpAsThePaper) {
  const auto warmup = [](const train::StepSchedule& list) {
    std::size_t n = 0;
    while (list[n].kind == train::ActionKind::kForward) ++n;
    return n;
  };
  const auto h1 = make_schedule({.kind = ScheduleKind::kZeroBubbleH1}, 4, 8);
  const auto h2 = make_schedule({.kind = ScheduleKind::kZeroBubbleH2}, 4, 8);
  std::vector<std::size_t> of_h1;
  std::vector<std::size_t> of_h2;
  for (const auto& list : h1.ranks) of_h1.push_back(warmup(list));
  for (const auto& list : h2.ranks) of_h2.push_back(warmup(list));
  EXPECT_EQ(of_h1, (std::vector<std::size_t>{4, 3, 2, 1}));
  EXPECT_EQ(of_h2, (std::vector<std::size_t>{7, 5, 3, 1}));
}

TEST(MakeSchedule, PairsForwardAndBackwardPassesInDualPipeV) {
  const auto schedule = make_schedule({.kind = ScheduleKind::kDualPipeV}, 4, 10);
  // 2 (m - 2 p + s + 1) of the main phase, p - s - 1 behind it; the last rank has one less.
  for (std::size_t s = 0; s < 4; ++s) {
    const std::size_t expected = 2 * (10 - 8 + s + 1) + (4 - s - 1) - (s == 3 ? 1 : 0);
    EXPECT_EQ(schedule.overlapped[s].size(), expected);
    for (const std::size_t index : schedule.overlapped[s]) {
      EXPECT_NE(schedule.ranks[s][index].chunk, schedule.ranks[s][index + 1].chunk);
    }
  }
}

TEST(MakeSchedule, SaysWhatItNeedsOfMicroBatches) {
  const auto refusal = [](std::size_t stages, std::size_t micro_batches) {
    return ultra::test::message_of<ConfigError>([&] {
      static_cast<void>(make_schedule({.kind = ScheduleKind::kInterleaved}, stages, micro_batches));
    });
  };
  EXPECT_THAT(refusal(4, 10), HasSubstr("10 % 4 = 2. Choose 8 or 12 micro-batches"));
  EXPECT_THAT(refusal(4, 3), HasSubstr("3 % 4 = 3. Choose 4 micro-batches"));
  EXPECT_THAT(refusal(4, 0), HasSubstr("at least one of each"));
  EXPECT_NO_THROW(static_cast<void>(make_schedule({.kind = ScheduleKind::kInterleaved}, 4, 8)));
}

TEST(MakeSchedule, RefusesMoreThanMemoryHolds) {
  EXPECT_THAT(ultra::test::message_of<ConfigError>(
                  [] { static_cast<void>(make_schedule({}, 4096, 1'000'000)); }),
              HasSubstr("1f1b on 4096 stages with 1000000 micro-batches: a schedule has at most "
                        "4194304 forward passes"));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
