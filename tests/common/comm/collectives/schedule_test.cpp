// Covers: common/comm/collectives/schedule.hpp, common/comm/collectives/collective_algorithms.hpp
// Covers: common/comm/collectives/schedule_runner.hpp

#include "common/comm/collectives/schedule.hpp"

#include "common/comm/collectives/schedule_runner.hpp"
#include "tests/common/comm/comm_test.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

class ChunksTest : public test::RandomTest {};

TEST_F(ChunksTest, EvenChunksCoverTheWholeInOrderAndDifferByAtMostOne) {
  for (int round = 0; round < 200; ++round) {
    const std::size_t begin = random.between(0, 50);
    const std::size_t count = random.pick<std::size_t>({0, 1, 7, random.between(0, 1000)});
    const int parts = static_cast<int>(random.between(1, 20));
    const Chunks chunks = Chunks::even({begin, begin + count}, parts);
    ASSERT_EQ(chunks.size(), parts);
    EXPECT_EQ(chunks.whole(), (Range{begin, begin + count}));
    std::size_t expected_begin = begin;
    for (int i = 0; i < parts; ++i) {
      EXPECT_EQ(chunks[i].begin, expected_begin);
      expected_begin = chunks[i].end;
      const std::size_t longer =
          static_cast<std::size_t>(i) < count % static_cast<std::size_t>(parts) ? 1 : 0;
      EXPECT_EQ(chunks[i].size(), count / static_cast<std::size_t>(parts) + longer);
    }
    EXPECT_EQ(expected_begin, begin + count);
    EXPECT_EQ(chunks.largest(), chunks[0].size());
  }
}

TEST_F(ChunksTest, PositionsWrapAround) {
  const Chunks chunks = Chunks::even({0, 10}, 4);
  EXPECT_EQ(chunks[-1], chunks[3]);
  EXPECT_EQ(chunks[-4], chunks[0]);
  EXPECT_EQ(chunks[-5], chunks[3]);
  EXPECT_EQ(chunks[4], chunks[0]);
  EXPECT_EQ(chunks[11], chunks[3]);
}

TEST_F(ChunksTest, RefusesNoParts) {
  for (const int parts : {0, -3}) {
    const auto text = message_of<ConfigError>([&] { return Chunks::even({0, 10}, parts); });
    EXPECT_THAT(text, HasSubstr(std::to_string(parts) + " chunks"));
    EXPECT_THAT(text, HasSubstr("at least 1"));
  }
}

Round exchange() {
  return {.send_to = 1,
          .send = {{0, 25}},
          .receive_from = 3,
          .receive = {{75, 100}},
          .on_receive = OnReceive::kReduce};
}

TEST(StepTest, SaysWhatItDoes) {
  EXPECT_EQ(to_string(exchange()),
            "sends [0, 25) to rank 1, receives [75, 100) from rank 3 and reduces");
  Round send;
  send.send_to = 0;
  send.send = {{4, 4}, Buffer::kInput};
  EXPECT_EQ(to_string(send), "sends input [4, 4) to rank 0");
  Round receive;
  receive.receive_from = 2;
  receive.receive = {{1, 3}, Buffer::kScratch};
  EXPECT_EQ(to_string(receive), "receives scratch [1, 3) from rank 2");
  EXPECT_EQ(to_string(Round{}), "does nothing");
}

TEST(ScheduleTest, CountsWhatIsSentToOthers) {
  Round to_itself = exchange();
  to_itself.send_to = 2;
  const Schedule schedule{.lanes = {{exchange(), to_itself, Round{}}, {}, {exchange()}}};
  EXPECT_EQ(sent_count(schedule, 2), 50U);
  EXPECT_EQ(sent_count(schedule, 1), 25U) << "rank 1 would send 25 to rank 2, the rest to itself";
  EXPECT_EQ(sent_count(Schedule{}, 0), 0U);
}

constexpr int kRank = 1;
constexpr int kSize = 4;
constexpr std::size_t kInput = 20;
constexpr std::size_t kData = 10;
constexpr std::size_t kScratch = 5;

Round send(int peer, Block block) {
  Round step;
  step.send_to = peer;
  step.send = block;
  return step;
}

Round receive(int peer, Block block, OnReceive how = OnReceive::kStore) {
  Round step;
  step.receive_from = peer;
  step.receive = block;
  step.on_receive = how;
  return step;
}

Round both(const Round& out, const Round& in) {
  Round step = in;
  step.send_to = out.send_to;
  step.send = out.send;
  return step;
}

Schedule schedule_of(Lane lane) { return {.lanes = {std::move(lane)}, .scratch_count = kScratch}; }

void check(const Schedule& schedule) { expect_runnable(schedule, kRank, kSize, kInput, kData); }

std::string fault_of(const Round& step) {
  return message_of<ConfigError>([&] { check(schedule_of({step})); });
}

TEST(ExpectRunnable, AcceptsWhatStaysInside) {
  EXPECT_NO_THROW(check(schedule_of({})));
  EXPECT_NO_THROW(check(schedule_of({Round{}})));
  EXPECT_NO_THROW(check(schedule_of({
      send(0, {{0, kData}}),
      send(3, {{0, kInput}, Buffer::kInput}),
      receive(2, {{kScratch, kScratch}, Buffer::kScratch}),
      receive(0, {{0, kScratch}, Buffer::kScratch}, OnReceive::kReduce),
      both(send(2, {{0, 5}}), receive(0, {{5, 10}})),
      both(send(2, {{0, 5}}), receive(2, {{0, 5}, Buffer::kScratch})),
      both(send(kRank, {{0, 3}}), receive(kRank, {{7, 10}}, OnReceive::kReduce)),
      both(send(2, {{4, 4}}), receive(0, {{0, 10}})),
  })));
}

TEST(ExpectRunnable, NamesTheStepAndWhatItDoes) {
  const Schedule schedule{.lanes = {{}, {Round{}, send(7, {{0, 3}})}}};
  const auto text = message_of<ConfigError>([&] { check(schedule); });
  EXPECT_EQ(text,
            "rank 1 of 4, lane 1, step 2 (sends [0, 3) to rank 7): there is no rank 7 among 4");
}

TEST(ExpectRunnable, RefusesRanksThatDoNotExist) {
  for (const int peer : {-2, 4, 99}) {
    const auto said = HasSubstr("there is no rank " + std::to_string(peer) + " among 4");
    EXPECT_THAT(fault_of(send(peer, {{0, 1}})), said);
    EXPECT_THAT(fault_of(receive(peer, {{0, 1}})), said);
  }
}

TEST(ExpectRunnable, RefusesMemoryOutside) {
  EXPECT_THAT(fault_of(send(0, {{0, kData + 1}})),
              HasSubstr("[0, 11) is not inside the data, which has 10 elements"));
  EXPECT_THAT(fault_of(receive(0, {{8, 12}})), HasSubstr("[8, 12) is not inside the data"));
  EXPECT_THAT(fault_of(receive(0, {{11, 11}})), HasSubstr("[11, 11) is not inside the data"));
  EXPECT_THAT(fault_of(send(0, {{0, kInput + 1}, Buffer::kInput})),
              HasSubstr("is not inside the input, which has 20 elements"));
  EXPECT_THAT(fault_of(receive(0, {{0, kScratch + 1}, Buffer::kScratch})),
              HasSubstr("is not inside the scratch memory, which has 5 elements"));
  EXPECT_THAT(fault_of(send(0, {{4, 2}})), HasSubstr("[4, 2) is not inside the data"));
  const auto huge = static_cast<std::size_t>(-1);
  EXPECT_THAT(fault_of(send(0, {{huge - 1, huge}})), HasSubstr("is not inside the data"));
}

TEST(ExpectRunnable, RefusesToWriteTheInput) {
  EXPECT_THAT(fault_of(receive(0, {{0, 1}, Buffer::kInput})), HasSubstr("the input is only read"));
}

TEST(ExpectRunnable, RefusesToSendWhatIsBeingOverwritten) {
  const auto said = AllOf(HasSubstr("sends elements while they are overwritten"),
                          HasSubstr("scratch memory first"));
  EXPECT_THAT(fault_of(both(send(2, {{0, 10}}), receive(2, {{0, 10}}, OnReceive::kReduce))), said);
  EXPECT_THAT(fault_of(both(send(2, {{0, 5}}), receive(0, {{4, 8}}))), said);
  EXPECT_THAT(fault_of(both(send(kRank, {{0, 5}}), receive(kRank, {{1, 6}}))), said);
}

TEST(ExpectRunnable, RefusesHalfACopyToOneself) {
  const auto said = HasSubstr("what a rank sends to itself it receives in the same step");
  EXPECT_THAT(fault_of(send(kRank, {{0, 1}})), said);
  EXPECT_THAT(fault_of(receive(kRank, {{0, 1}})), said);
  EXPECT_THAT(fault_of(both(send(kRank, {{0, 1}}), receive(2, {{1, 2}}))), said);
}

TEST(ExpectRunnable, RefusesCopiesOfTwoSizes) {
  EXPECT_THAT(fault_of(both(send(kRank, {{0, 2}}), receive(kRank, {{4, 5}}))),
              HasSubstr("the two blocks of a copy must have the same size"));
}

TEST(ExpectRunnable, RefusesMoreLanesThanMessagesCanBeToldApart) {
  EXPECT_NO_THROW(check({.lanes = std::vector<Lane>(32)}));
  const auto text = message_of<ConfigError>([] { check({.lanes = std::vector<Lane>(33)}); });
  EXPECT_THAT(text, AllOf(HasSubstr("33 lanes"), HasSubstr("at most 32")));
}

}  // namespace
}  // namespace ultra::comm
