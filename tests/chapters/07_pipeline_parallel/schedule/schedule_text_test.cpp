#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"
#include "tests/support/compare.hpp"

namespace ultra::pipeline_parallel {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  return ultra::test::message_of<ConfigError>(
      [&] { static_cast<void>(schedule_from_text(text, "mine.txt")); });
}

TEST(ScheduleText, IsReadBack) {
  test::for_every_schedule([](const ScheduleChoice& choice, const PipelineShape& shape) {
    // Of one stage, a V and a loop are the same.
    const auto written = make_schedule(choice, shape.stages, shape.micro_batches);
    const auto read = schedule_from_text(text_of(written), "read");
    EXPECT_EQ(read.ranks, written.ranks);
    EXPECT_EQ(read.overlapped, written.overlapped);
    EXPECT_EQ(read.micro_batches, written.micro_batches);
    ASSERT_EQ(read.placement.parts(), written.placement.parts());
    for (std::size_t part = 0; part < read.placement.parts(); ++part) {
      EXPECT_EQ(read.placement.at(part), written.placement.at(part));
    }
  });
}

TEST(ScheduleText, MayHaveCommentsAndBlanks) {
  const auto schedule =
      schedule_from_text("\n# mine\r\n  F0\tF1 BW0 BW1 # warm-up of one\r\n\nF0 BW0 F1 BW1", "x");
  EXPECT_EQ(schedule.stages(), 2U);
  EXPECT_EQ(schedule.micro_batches, 2U);
  EXPECT_EQ(schedule.ranks[0].size(), 4U);
}

// As editors of some systems write it before the first letter.
TEST(ScheduleText, MayBeginWithAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(schedule_from_text(mark + "F0 BW0", "x").ranks,
            schedule_from_text("F0 BW0", "x").ranks);
  EXPECT_EQ(schedule_from_text(mark + "placement v\nF0 F0.1 BW0.1 BW0", "x").placement.chunks(),
            2U);
  EXPECT_THAT(refusal("F0 BW0\n" + mark + "F0 BW0"), HasSubstr("line 2"));
}

TEST(ScheduleText, RefusesWhatItCannotRead) {
  EXPECT_THAT(refusal("F0 BW0\nF0 X0"),
              HasSubstr("schedule mine.txt, line 2: 'X0' is no action. Write F, B, W, BW or U"));
  for (const char* word : {"F", "0", "F0.", "F.1", "F-1", "f0", "F0.0.1", "F1.5000", "F99999999",
                           "F99999999999999999999999", "F0&", "&", "F0&BW1&F2", "FB0"}) {
    EXPECT_THAT(refusal(std::string("F0 ") + word), HasSubstr("is no action")) << word;
  }
  EXPECT_THAT(refusal(""), HasSubstr("no line with actions"));
  EXPECT_THAT(refusal("# nothing"), HasSubstr("no line with actions"));
  EXPECT_THAT(refusal("placement w\nF0 BW0"), HasSubstr("line 1: after 'placement' comes"));
  EXPECT_THAT(refusal("placement\nF0 BW0"), HasSubstr("line 1: after 'placement' comes"));
  EXPECT_THAT(refusal("F0 BW0\nplacement v"), HasSubstr("line 2: 'placement' comes before"));
  for (const char* both : {"placement v\nplacement v\n", "placement v\n\nplacement loop\n"}) {
    EXPECT_THAT(refusal(both + std::string("F0 F0.1 BW0.1 BW0")),
                HasSubstr("'placement' is said in line 1 already. Leave one of the two lines out"));
  }
  EXPECT_THAT(refusal("placement v\nF0 BW0"),
              HasSubstr("two chunks per rank, but the text names 1"));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
