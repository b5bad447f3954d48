#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_schedule_choice(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing refused";
}

TEST(ScheduleChoice, OfEveryNameIsReadBack) {
  for (const ScheduleChoice& choice : published_schedules()) {
    EXPECT_EQ(parse_schedule_choice(choice.str()), choice) << choice.str();
    EXPECT_THAT(schedule_names(), HasSubstr(choice.str().substr(0, choice.str().find(':'))));
  }
  EXPECT_EQ(parse_schedule_choice("interleaved").chunks(), 2U);
  EXPECT_EQ(parse_schedule_choice("interleaved:5").chunks(), 5U);
  EXPECT_EQ(parse_schedule_choice("zb-v").chunks(), 2U);
  EXPECT_EQ(parse_schedule_choice("1f1b").chunks(), 1U);
}

TEST(ScheduleChoice, RefusesOtherNames) {
  EXPECT_THAT(refusal("gpipe"), HasSubstr("no schedule 'gpipe'. There are naive, afab, 1f1b"));
  EXPECT_THAT(refusal(""), HasSubstr("no schedule ''"));
  EXPECT_THAT(refusal("serch"), HasSubstr("and search for the best that can be found"));
  EXPECT_THAT(refusal("1f1b:2"), HasSubstr("no schedule '1f1b:2'"));
  EXPECT_THAT(refusal("interleaved:0"), HasSubstr("'0' is no number of chunks"));
  EXPECT_THAT(refusal("interleaved:"), HasSubstr("interleaved:2"));
  EXPECT_THAT(refusal("interleaved:-1"), HasSubstr("'-1'"));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
