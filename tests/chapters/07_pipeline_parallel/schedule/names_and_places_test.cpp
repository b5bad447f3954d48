// What schedules, actions and places are called, and who is where.
//
// Covers: chapters/07_pipeline_parallel/schedule/schedule_choice.hpp
// Covers: chapters/07_pipeline_parallel/schedule/action_names.hpp
// Covers: chapters/07_pipeline_parallel/schedule/placement.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>

#include "chapters/07_pipeline_parallel/schedule/action_names.hpp"
#include "chapters/07_pipeline_parallel/schedule/placement.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::pipeline_parallel {
namespace {

using ::testing::HasSubstr;

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

TEST(ActionNames, AreThoseThatActionsAreWrittenWith) {
  for (const auto& [kind, letters] : kActionNames) {
    const train::Action action{.kind = kind, .micro_batch = 12};
    EXPECT_EQ(action.str(), std::string(letters) + "12");
    EXPECT_EQ(letters_of(kind), letters);
    EXPECT_EQ(kind_of(letters), kind);
  }
}

TEST(ActionNames, NameNothingElse) {
  for (const char* letters : {"", "f", "WB", "FF", "BWU"}) {
    EXPECT_FALSE(kind_of(letters).has_value()) << letters;
  }
}

TEST(Placement, LoopsOnceRoundTheRanksForEachChunk) {
  const Placement loop = Placement::loop(3, 2);
  EXPECT_EQ(loop.parts(), 6U);
  EXPECT_EQ(loop.chunks(), 2U);
  EXPECT_EQ(loop.at(2), (ChunkSite{.stage = 2, .chunk = 0}));
  EXPECT_EQ(loop.at(3), (ChunkSite{.stage = 0, .chunk = 1}));
}

TEST(Placement, OfAVHasBothEndsOnTheFirstRank) {
  const Placement v = Placement::v_shape(3);
  EXPECT_EQ(v.at(0), (ChunkSite{.stage = 0, .chunk = 0}));
  EXPECT_EQ(v.at(2), (ChunkSite{.stage = 2, .chunk = 0}));
  EXPECT_EQ(v.at(3), (ChunkSite{.stage = 2, .chunk = 1}));
  EXPECT_EQ(v.at(5), (ChunkSite{.stage = 0, .chunk = 1}));
}

TEST(Placement, FindsThePartOfEveryPlace) {
  for (const Placement& placement :
       {Placement::loop(1), Placement::loop(4, 3), Placement::v_shape(1), Placement::v_shape(5)}) {
    for (std::size_t part = 0; part < placement.parts(); ++part) {
      EXPECT_EQ(placement.part_at(placement.at(part)), part);
    }
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
