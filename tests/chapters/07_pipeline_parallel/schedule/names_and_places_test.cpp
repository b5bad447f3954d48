// What schedules and places are called, and who is where.
//
// Covers: chapters/07_pipeline_parallel/schedule/schedule_choice.hpp
// Covers: chapters/07_pipeline_parallel/schedule/action_names.hpp
// Covers: chapters/07_pipeline_parallel/schedule/placement.hpp

#include <iterator>

#include "chapters/07_pipeline_parallel/schedule/placement.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

std::string refusal_of_place(const std::string& text) {
  return ultra::test::message_of<ConfigError>(
      [&] { static_cast<void>(parse_schedule_choice(text)); });
}

TEST(ScheduleChoice, OfEveryNameIsReadBack) {
  for (const ScheduleChoice& choice : all_schedules()) {
    EXPECT_EQ(parse_schedule_choice(choice.str()), choice) << choice.str();
    EXPECT_THAT(schedule_names(), HasSubstr(choice.str().substr(0, choice.str().find(':'))));
  }
  EXPECT_EQ(parse_schedule_choice("interleaved").chunks(), 2U);
  EXPECT_EQ(parse_schedule_choice("interleaved:5").chunks(), 5U);
  EXPECT_EQ(parse_schedule_choice("breadth-first:3").chunks(), 3U);
  EXPECT_EQ(parse_schedule_choice("zb-v").chunks(), 2U);
  EXPECT_EQ(parse_schedule_choice("1f1b").chunks(), 1U);
}

// The numbers of ScheduleKind are rows of the table.
TEST(ScheduleChoice, HasTheNameOfItsKind) {
  using enum ScheduleKind;
  const std::pair<ScheduleKind, std::string> names[] = {{kNaive, "naive"},
                                                        {kAfab, "afab"},
                                                        {kOneFOneB, "1f1b"},
                                                        {kInterleaved, "interleaved:2"},
                                                        {kZeroBubbleH1, "zero-bubble-h1"},
                                                        {kZeroBubbleH2, "zero-bubble-h2"},
                                                        {kZbV, "zb-v"},
                                                        {kDualPipeV, "dualpipe-v"},
                                                        {kPipedreamAsync, "pipedream-async"}};
  EXPECT_EQ(published_schedules().size(), std::size(names));
  for (const auto& [kind, name] : names) EXPECT_EQ(ScheduleChoice{.kind = kind}.str(), name);
}

TEST(ScheduleChoice, RefusesOtherNames) {
  EXPECT_THAT(refusal_of_place("gpipe"),
              HasSubstr("no schedule 'gpipe'. There are naive, afab, 1f1b"));
  EXPECT_THAT(refusal_of_place(""), HasSubstr("no schedule ''"));
  EXPECT_THAT(refusal_of_place("serch"), HasSubstr("and search for the best that can be found"));
  EXPECT_THAT(refusal_of_place("1f1b:2"), HasSubstr("no schedule '1f1b:2'"));
  EXPECT_THAT(refusal_of_place("interleaved:0"), HasSubstr("'0' is no number of chunks"));
  EXPECT_THAT(refusal_of_place("interleaved:"), HasSubstr("interleaved:2"));
  EXPECT_THAT(refusal_of_place("interleaved:-1"), HasSubstr("'-1'"));
  EXPECT_THAT(refusal_of_place("breadth-first:0"), HasSubstr("for example breadth-first:2"));
}

TEST(Placement, FindsThePartOfEveryPlace) {
  for (const Placement& placement :
       {Placement::loop(1), Placement::loop(4, 3), Placement::v_shape(1), Placement::v_shape(5)}) {
    for (std::size_t part = 0; part < placement.parts(); ++part) {
      EXPECT_EQ(placement.part_at(placement.at(part)), part);
    }
  }
}

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
