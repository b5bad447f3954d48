#include "chapters/07_pipeline_parallel/schedule/validate.hpp"

#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"
#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/message_table.hpp"
#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

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

std::string str(const Instruction& now) {
  switch (now.kind) {
    case InstructionKind::kPost:
      return "post " + now.action.str();
    case InstructionKind::kPass:
      return now.action.str();
    case InstructionKind::kSend:
      return "send " + now.action.str();
  }
  return "";
}

std::string str(const std::vector<Instruction>& list) {
  std::string text;
  for (const Instruction& now : list) text += (text.empty() ? "" : ", ") + str(now);
  return text;
}

TEST(Messages, StandAroundThePassesThatNeedAndMakeThem) {
  const auto lists = with_messages(make_schedule({.kind = ScheduleKind::kOneFOneB}, 2, 2));
  EXPECT_EQ(str(lists[0]), "post BW0, F0, send F0, F1, send F1, post BW1, BW0, BW1");
  EXPECT_EQ(str(lists[1]), "post F0, post F1, F0, BW0, send BW0, F1, BW1, send BW1");
  EXPECT_EQ(lists[0][2].peer, 1U);
  EXPECT_EQ(lists[0][2].message,
            (Message{.content = Content::kActivation, .micro_batch = 0, .part = 1}));
  EXPECT_EQ(lists[0][0].message.str(), "the gradient of micro-batch 0");
  EXPECT_EQ(lists[0][0].message.from_part(), 1U);
}

TEST(Messages, AreEachPostedSentAndNeededOnce) {
  test::for_every_schedule([](const ScheduleChoice& choice, const PipelineShape& shape) {
    const auto schedule = make_schedule(choice, shape.stages, shape.micro_batches);
    const InstructionLists lists = with_messages(schedule);
    MessageTable<int> posted(schedule, 0);
    MessageTable<int> sent(schedule, 0);
    std::size_t sends = 0;
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      std::size_t passes = 0;
      for (const Instruction& now : lists[stage]) {
        if (now.kind == InstructionKind::kPass) {
          EXPECT_EQ(now.index, passes++);
          EXPECT_EQ(now.action, schedule.ranks[stage][now.index]);
          const auto input = input_of(schedule, stage, now.action);
          const bool travels = input && schedule.placement.at(input->from_part()).stage != stage;
          EXPECT_TRUE(!travels || posted[*input] == 1) << now.action.str();
          continue;
        }
        const bool sends_it = now.kind == InstructionKind::kSend;
        EXPECT_EQ(++(sends_it ? sent : posted)[now.message], 1) << now.message.str();
        const std::size_t other = sends_it ? now.message.part : now.message.from_part();
        EXPECT_EQ(schedule.placement.at(other).stage, now.peer);
        if (sends_it) ++sends;
      }
      EXPECT_EQ(passes, schedule.ranks[stage].size());
      // Of breadth-first, messages for the next chunk arrive while a rank is busy with this one.
      const bool is_published = choice.kind <= ScheduleKind::kPipedreamAsync;
      EXPECT_LE(peak_posted(lists[stage]),
                is_published ? 4U : std::max<std::size_t>(4, shape.micro_batches));
    }
    EXPECT_EQ(sends, messages_of(choice, shape));
    EXPECT_EQ(find_deadlock(schedule, lists), std::nullopt);
  });
}

// Both ranks hand over before they ask: each waits for the other one's receive.
TEST(Messages, InAnOrderThatDeadlocksAreReported) {
  const auto schedule = make_schedule({.kind = ScheduleKind::kOneFOneB}, 2, 4);
  InstructionLists lists = with_messages(schedule);
  for (auto& list : lists) {
    // Every receive is posted right before the pass that needs it.
    std::ranges::stable_sort(list, {}, [](const Instruction& now) {
      return std::pair(now.index, now.kind == InstructionKind::kPost ? 0 : 1);
    });
  }
  const auto deadlock = find_deadlock(schedule, lists);
  ASSERT_TRUE(deadlock.has_value());
  EXPECT_EQ(*deadlock,
            "stage 0 has done F1 and waits until stage 1 posts a receive for the activation of "
            "micro-batch 1; stage 1 has done BW0 and waits until stage 0 posts a receive for the "
            "gradient of micro-batch 0");
}

}  // namespace
}  // namespace ultra::pipeline_parallel
