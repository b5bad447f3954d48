// The interpreter is the oracle of the chapter's algorithms: it must notice what an executor may
// survive by luck.
#include "tests/support/contracts/schedule_interpreter.hpp"

#include "chapters/02_collectives/steps.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::exchange_step;
using collectives::local_step;
using collectives::receive_step;
using collectives::send_step;
using comm::Block;
using comm::Buffer;
using comm::Lane;
using comm::OnReceive;
using comm::Schedule;
using test::Fault;
using test::Interpretation;

Interpretation<double> run(const std::vector<Schedule>& schedules) {
  std::vector<test::RankBuffers<double>> buffers;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    const double first = 10.0 * static_cast<double>(rank);
    buffers.push_back({.data = {first, first + 1, first + 2, first + 3}, .input = {first + 5}});
  }
  return test::interpret<double>(schedules, buffers);
}

Schedule lane(Lane steps) { return {.lanes = {std::move(steps)}}; }

constexpr Block kFirst{{0, 2}};
constexpr Block kSecond{{2, 4}};

TEST(ScheduleInterpreter, MovesStoresAndReduces) {
  const auto result = run({lane({exchange_step(1, kFirst, 1, kSecond, OnReceive::kReduce)}),
                           lane({exchange_step(0, kFirst, 0, kSecond),
                                 local_step(1, {{0, 1}, Buffer::kInput}, {{0, 1}})})});
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.data[0], (std::vector<double>{0, 1, 12, 14}));
  EXPECT_EQ(result.data[1], (std::vector<double>{15, 11, 0, 1}));
  EXPECT_EQ(result.sent, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(result.rounds, 1);
}

TEST(ScheduleInterpreter, CountsRoundsOfAChain) {
  const auto result =
      run({lane({send_step(1, kFirst)}), lane({receive_step(0, kFirst), send_step(2, kFirst)}),
           lane({receive_step(1, kFirst)})});
  EXPECT_EQ(result.rounds, 2);
  EXPECT_EQ(result.data[2], (std::vector<double>{0, 1, 22, 23}));
}

TEST(ScheduleInterpreter, SeesThatAllSendAndNobodyReceives) {
  const auto result = run({lane({send_step(1, kFirst), receive_step(1, kSecond)}),
                           lane({send_step(0, kFirst), receive_step(0, kSecond)})});
  EXPECT_EQ(result.fault, Fault::kDeadlock);
  EXPECT_EQ(result.message,
            "deadlock: rank 0, step 1 of 2 (sends [0, 2) to rank 1) waits for rank 1 to receive; "
            "rank 1, step 1 of 2 (sends [0, 2) to rank 0) waits for rank 0 to receive; and so back "
            "to rank 0");
}

TEST(ScheduleInterpreter, SeesAMessageThatNobodyTakes) {
  const auto result = run({lane({send_step(1, kFirst)}), lane({})});
  EXPECT_EQ(result.fault, Fault::kDeadlock);
  EXPECT_THAT(result.message, HasSubstr("rank 1 has no step left that would"));
}

TEST(ScheduleInterpreter, MatchesMessagesLaneByLane) {
  const Schedule in_second_lane{.lanes = {{}, {receive_step(0, kFirst)}}};
  EXPECT_EQ(run({lane({send_step(1, kFirst)}), in_second_lane}).fault, Fault::kDeadlock);
}

TEST(ScheduleInterpreter, SeesBlocksOfDifferentSizes) {
  const auto result = run({lane({send_step(1, kFirst)}), lane({receive_step(0, {{0, 3}})})});
  EXPECT_EQ(result.fault, Fault::kSize);
  EXPECT_THAT(result.message, HasSubstr("sends 2 elements, and rank 1"));
}

TEST(ScheduleInterpreter, SeesWhatIsOutsideOfTheBuffer) {
  EXPECT_EQ(run({lane({send_step(1, {{3, 5}})}), lane({receive_step(0, kFirst)})}).fault,
            Fault::kBadStep);
  EXPECT_EQ(run({lane({send_step(1, {{0, 1}, Buffer::kScratch})}), lane({})}).fault,
            Fault::kBadStep);
  EXPECT_EQ(run({lane({send_step(7, kFirst)}), lane({})}).fault, Fault::kBadStep);
  EXPECT_EQ(run({lane({local_step(0, kFirst, {{0, 1}, Buffer::kInput})}), lane({})}).fault,
            Fault::kBadStep);
}

TEST(ScheduleInterpreter, SeesThatAStepOverwritesWhatItSends) {
  const auto result = run({lane({exchange_step(1, kFirst, 1, {{1, 3}})}),
                           lane({exchange_step(0, kFirst, 0, kSecond)})});
  EXPECT_EQ(result.fault, Fault::kRace);
  EXPECT_THAT(result.message, HasSubstr("rank 0, step 1 of 1"));
}

TEST(ScheduleInterpreter, SeesThatLanesTouchTheSameElements) {
  const Schedule both_write{.lanes = {{receive_step(1, kFirst)}, {receive_step(1, {{1, 3}})}}};
  const Schedule one_reads{.lanes = {{receive_step(1, kFirst)}, {send_step(1, {{1, 3}})}}};
  const Schedule apart{.lanes = {{receive_step(1, kFirst)}, {receive_step(1, kSecond)}}};
  const Schedule sends{.lanes = {{send_step(0, kFirst)}, {send_step(0, kSecond)}}};
  EXPECT_EQ(run({both_write, sends}).fault, Fault::kRace);
  EXPECT_EQ(run({one_reads, sends}).fault, Fault::kRace);
  EXPECT_EQ(run({apart, sends}).fault, Fault::kNone);
}

}  // namespace
}  // namespace ultra
