#include "common/train/step_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/training/schedules.hpp"

namespace ultra::train {
namespace {

using test::schedule_of;
using ::testing::HasSubstr;

TEST(StepSchedules, ActionsAreCalledByTheirPassMicroBatchAndChunk) {
  EXPECT_EQ((Action{.kind = ActionKind::kForward}).str(), "F0");
  EXPECT_EQ((Action{.kind = ActionKind::kBackward, .micro_batch = 12}).str(), "BW12");
  EXPECT_EQ((Action{.kind = ActionKind::kBackwardInput, .micro_batch = 3}).str(), "B3");
  EXPECT_EQ((Action{.kind = ActionKind::kBackwardWeight, .micro_batch = 1, .chunk = 2}).str(),
            "W1.2");
  EXPECT_EQ((Action{.kind = ActionKind::kUpdate, .micro_batch = 4}).str(), "U4");
}

TEST(StepSchedules, BackwardPassesMakeGradientsOfWeightsUnlessTheyOnlySendOn) {
  const StepSchedule schedule = schedule_of("F0 BW0 B0 W0 U0");
  EXPECT_FALSE(schedule[0].makes_gradients());
  EXPECT_TRUE(schedule[1].makes_gradients());
  EXPECT_FALSE(schedule[2].makes_gradients());
  EXPECT_TRUE(schedule[3].makes_gradients());
  EXPECT_FALSE(schedule[4].makes_gradients());
}

TEST(StepSchedules, KnowWhetherWeightsChangeBetweenTheirPasses) {
  EXPECT_FALSE(updates_between(schedule_of("F0 BW0 F1 BW1")));
  EXPECT_TRUE(updates_between(schedule_of("F0 BW0 U0")));
  EXPECT_FALSE(updates_between({}));
}

TEST(StepSchedules, HaveForwardPassesInTheirOrder) {
  EXPECT_EQ(forwards_of(schedule_of("F0 F1.1 B0 F1 W0 B1.1 BW1")), schedule_of("F0 F1.1 F1"));
}

TEST(StepSchedules, AreCompleteWhenEverythingPassesForwardAndBackwardOnce) {
  expect_complete({}, 0, 1);
  for (const char* schedule :
       {"F0 BW0 F1 BW1", "F0 F1 BW0 BW1", "F1 F0 B0 B1 W1 W0", "F0 B0 F1 W0 BW1"}) {
    EXPECT_NO_THROW(expect_complete(schedule_of(schedule), 2, 1)) << schedule;
  }
  EXPECT_NO_THROW(expect_complete(schedule_of("F0 F0.1 BW0.1 B0 W0"), 1, 2));
  EXPECT_NO_THROW(expect_complete(schedule_of("F0 F1 BW0 U0 B1 W1 U1"), 2, 1));
}

TEST(StepSchedules, NameWhatIsMissingOutOfOrderOrThereTwice) {
  const struct {
    const char* schedule;
    std::size_t micro_batches;
    std::size_t chunks;
    const char* message;
  } rows[] = {
      {"F0 BW0", 2, 1, "ends before micro-batch 1 has passed chunk 0"},
      {"F0 F1 BW0", 2, 1, "ends before micro-batch 1 has passed chunk 0"},
      {"F0 B0", 1, 1, "ends before micro-batch 0 has passed chunk 0"},
      {"F0 F0.1 BW0", 1, 2, "ends before micro-batch 0 has passed chunk 1"},
      {"BW0 F0", 1, 1, "has BW0 twice, or before what must come first"},
      {"F0 F0 BW0", 1, 1, "has F0 twice"},
      {"F0 BW0 BW0", 1, 1, "has BW0 twice"},
      {"F0 W0 B0", 1, 1, "has W0 twice, or before what must come first"},
      {"F0 B0 BW0", 1, 1, "has BW0 twice"},
      {"F0 B0 W0 W0", 1, 1, "has W0 twice"},
      {"F0 U0 BW0", 1, 1, "has U0 twice, or before what must come first"},
      {"F0 BW0 U0 U0", 1, 1, "has U0 twice"},
      {"F0 BW0 U0 F1 BW1", 2, 1, "ends before micro-batch 1 has passed chunk 0 and updated it"},
      {"F0 BW0 F1", 1, 1, "has F1, but there are 1 micro-batches and 1 chunks"},
      {"F0 F0.1", 1, 1, "has F0.1, but there are 1 micro-batches and 1 chunks"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(test::message_of<InternalError>([&] {
                  expect_complete(schedule_of(row.schedule), row.micro_batches, row.chunks);
                }),
                HasSubstr(row.message))
        << row.schedule;
  }
}

}  // namespace
}  // namespace ultra::train
