#include "chapters/07_pipeline_parallel/schedule/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"
#include "chapters/07_pipeline_parallel/schedule/message_table.hpp"
#include "tests/chapters/07_pipeline_parallel/every_shape.hpp"

namespace ultra::pipeline_parallel {
namespace {

using ::testing::HasSubstr;

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
