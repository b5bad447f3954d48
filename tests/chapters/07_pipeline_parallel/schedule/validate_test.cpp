#include "chapters/07_pipeline_parallel/schedule/validate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"
#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "common/base/errors.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::pipeline_parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of_order(const std::string& text) {
  return ultra::test::message_of<ConfigError>(
      [&] { static_cast<void>(schedule_from_text(text, "mine")); });
}

std::string refusal_of_order(const PipelineSchedule& schedule) {
  return ultra::test::message_of<ConfigError>([&] { expect_valid(schedule); });
}

TEST(Validate, NamesTheStageTheActionAndTheReason) {
  EXPECT_EQ(refusal_of_order("F0 BW0\nBW0 F0"),
            "schedule mine, stage 1, action 1 of 2, BW0: its forward pass must come first.");
  EXPECT_THAT(refusal_of_order("F0 B0 W0\nF0 W0 B0"),
              HasSubstr("stage 1, action 2 of 3, W0: the B that makes what it works on must come"));
  EXPECT_THAT(refusal_of_order("F0 F0 BW0\nF0 BW0"),
              HasSubstr("action 2 of 3, F0: it has been done before"));
  EXPECT_THAT(refusal_of_order("F0 BW0 W0\nF0 BW0"), HasSubstr("W0: it has been done before"));
  EXPECT_THAT(
      refusal_of_order("F0 BW0 F1\nF0 BW0 F1 BW1"),
      HasSubstr("stage 0: micro-batch 1 has no backward pass (B1 or BW1). Every micro-batch"));
  EXPECT_THAT(refusal_of_order("F0 BW0 F1 BW1\nF0 BW0"),
              HasSubstr("stage 1: micro-batch 1 has no forward pass (F1)"));
  EXPECT_THAT(refusal_of_order("F0 B0\nF0 BW0"), HasSubstr("has no gradients of weights (W0)"));
  EXPECT_THAT(refusal_of_order("F0 F0.1 BW0.1 BW0\nF0 BW0"), HasSubstr("no forward pass (F0.1)"));
  EXPECT_THAT(refusal_of_order("F0 BW0 U0 F1 BW1\nF0 BW0 U0 F1 BW1 U1"),
              HasSubstr("stage 0: micro-batch 1 has no update, but others have one (U1)"));
  EXPECT_THAT(refusal_of_order("F0 U0 BW0\nF0 BW0 U0"),
              HasSubstr("U0: the gradients of its weights must"));
  for (const char* list : {"F0 F1 BW0 BW1 U0 U1", "F0 B0 W0 U0 F1 BW1 U1", "F0 BW0 F1 U0 BW1 U1"}) {
    EXPECT_THAT(refusal_of_order(std::string(list) + "\nF0 BW0 U0 F1 BW1 U1"),
                HasSubstr("U0: an update stands right behind the whole backward pass of its "
                          "micro-batch, so write BW0 U0."));
  }
  EXPECT_THAT(refusal_of_order("F0&BW0\nF0 BW0"),
              HasSubstr("stage 0, action 1 of 2: only a forward pass"));
}

TEST(Validate, SaysWhatEachRankWaitsForWhenPassesNeverEnd) {
  EXPECT_EQ(refusal_of_order("F0 BW0 F1 BW1\nF1 BW1 F0 BW0"),
            "schedule mine never ends: stage 0 waits in BW0 for the gradient of micro-batch 0 from "
            "stage 1; stage 1 waits in F1 for the activation of micro-batch 1 from stage 0.");
  EXPECT_THAT(refusal_of_order("placement v\nF0 F0.1 BW0.1 BW0\nF0.1 F0 BW0.1 BW0"),
              HasSubstr("stage 1 waits in F0.1 for the activation of micro-batch 0, which it makes "
                        "itself, but later"));
}

TEST(Validate, WantsAListForEveryStage) {
  PipelineSchedule schedule = make_schedule({}, 3, 2);
  schedule.ranks.pop_back();
  EXPECT_THAT(refusal_of_order(schedule), HasSubstr("has lists for 2 stages, but there are 3"));
  schedule = make_schedule({}, 3, 2);
  schedule.micro_batches = 1;
  EXPECT_THAT(refusal_of_order(schedule), HasSubstr("there are 1 micro-batches, from 0 to 0"));
  schedule = make_schedule({}, 3, 2);
  schedule.ranks[1][0].chunk = 1;
  EXPECT_THAT(refusal_of_order(schedule), HasSubstr("F0.1: a rank has 1 chunks"));
}

class RandomlyBrokenSchedules : public ultra::test::RandomTest {};

// Whatever is lost from a valid schedule, or done twice, is found.
TEST_F(RandomlyBrokenSchedules, AreRefused) {
  for (int round = 0; round < 200; ++round) {
    const auto kinds = all_schedules();
    const ScheduleChoice choice = kinds[random.between(0, kinds.size() - 1)];
    const std::size_t p = random.between(1, 4);
    PipelineSchedule schedule = make_schedule(choice, p, p * random.between(2, 4));
    schedule.overlapped.clear();
    auto& list = schedule.ranks[random.between(0, p - 1)];
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(random.between(0, list.size() - 1));
    SCOPED_TRACE(schedule.name + " with a wrong " + at->str());
    if (random.between(0, 1) == 0) {
      list.erase(at);
    } else {
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(random.between(0, list.size())), *at);
    }
    EXPECT_THAT(refusal_of_order(schedule), HasSubstr("schedule " + choice.str() + ", stage "));
  }
}

TEST(PeakLiveActivations, AreThoseOfTheClosedForms) {
  test::for_every_schedule([](const ScheduleChoice& choice, const PipelineShape& shape) {
    if (choice.row().peak == nullptr) return;
    const auto peaks =
        peak_live_activations(make_schedule(choice, shape.stages, shape.micro_batches));
    for (std::size_t stage = 0; stage < shape.stages; ++stage) {
      EXPECT_EQ(peaks[stage], peak_activations_of(choice, shape, stage)) << "stage " << stage;
    }
  });
}

}  // namespace
}  // namespace ultra::pipeline_parallel
