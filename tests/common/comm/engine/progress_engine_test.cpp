// Covers: common/comm/work.hpp, common/comm/engine/rank_monitor.hpp
//
// The engine with operations that end when the test says so, and a view of other ranks that the test
// paints.

#include "common/comm/engine/progress_engine.hpp"

#include "common/comm/engine/wait_any.hpp"
#include "common/comm/work.hpp"
#include "tests/common/comm/engine/fake_operation.hpp"

namespace ultra::comm {
namespace {

class ProgressEngineTest : public ::testing::Test {
 protected:
  std::shared_ptr<ProgressEngine> make(Progress progress) {
    return std::make_shared<ProgressEngine>(
        monitor,
        EngineOptions{.timeout = std::chrono::seconds(20), .progress = progress, .next_alarm = {}});
  }
  std::shared_ptr<FakeOperation> start(ProgressEngine& engine,
                                       std::shared_ptr<FakeOperation> operation) {
    engine.submit(operation, true);
    return operation;
  }
  std::shared_ptr<FakeOperation> start(ProgressEngine& engine, std::uint32_t sequence) {
    return start(engine, std::make_shared<FakeOperation>(sequence));
  }

  std::shared_ptr<FakeOperation> start_message(std::uint32_t sequence) {
    return start(*on_call, std::make_shared<FakeOperation>(sequence, Operation::Order::kAnyTime));
  }
  /// Sends messages to rank 1, one every 5 ms, and asks for all that are under way. Rank 1 takes them
  /// in order: the last but one after each, or, when it is `slower`, one for so many.
  class Sender {
   public:
    explicit Sender(ProgressEngine& engine, std::uint32_t slower = 1)
        : engine_(engine), slower_(slower) {}

    void send() {
      sent_.push_back(std::make_shared<FakeOperation>(1, number_++));
      engine_.submit(sent_.back(), true);
      if (sent_.size() > 2 && number_ % slower_ == 0) sent_.front()->ends = true;
      std::erase_if(sent_, [&](const auto& message) { return engine_.poll(message); });
      std::this_thread::sleep_for(milliseconds(5));
    }

   private:
    ProgressEngine& engine_;
    std::uint32_t slower_;
    std::uint32_t number_ = 0;
    std::vector<std::shared_ptr<FakeOperation>> sent_;
  };

  /// Waits that end then.
  static EngineOptions until(milliseconds timeout, decltype(EngineOptions::next_alarm) alarm = {}) {
    return {.timeout = timeout, .progress = Progress::kOnCall, .next_alarm = std::move(alarm)};
  }
  /// A thread that ends an operation in 20 ms.
  static std::jthread end_later(const std::shared_ptr<FakeOperation>& operation) {
    return std::jthread([operation] {
      std::this_thread::sleep_for(milliseconds(20));
      operation->ends = true;
    });
  }

  test::Watchdog watchdog{std::chrono::seconds(60)};
  std::shared_ptr<FakeMonitor> monitor = std::make_shared<FakeMonitor>();
  std::shared_ptr<ProgressEngine> on_call = make(Progress::kOnCall);
};

TEST_F(ProgressEngineTest, OnCallMovesOnlyWhenAsked) {
  const auto operation = start(*on_call, 0);
  const int looks = operation->looks;
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(operation->looks, looks);
  on_call->poll();
  EXPECT_EQ(operation->looks, looks + 1);
}

TEST_F(ProgressEngineTest, TheThreadMovesMeanwhile) {
  const auto engine = make(Progress::kThread);
  const auto operation = start(*engine, 0);
  const int looks = operation->looks;
  while (operation->looks < looks + 3) std::this_thread::sleep_for(milliseconds(1));
  operation->ends = true;
  while (engine->stats()[OpKind::kBarrier].operations == 0) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST_F(ProgressEngineTest, OperationsOfACommunicatorGoInTurn) {
  const auto first = start(*on_call, 0);
  const auto second = start(*on_call, 1);
  const auto elsewhere =
      start(*on_call, std::make_shared<FakeOperation>(2, Operation::Order::kInTurn, 1));
  const auto message = start_message(3);
  on_call->poll();
  EXPECT_EQ(second->looks, 0) << "its predecessor has not ended";
  EXPECT_GT(elsewhere->looks, 0) << "another group does not wait for this one";
  EXPECT_GT(message->looks, 0) << "messages go beside";
  first->ends = true;
  second->ends = true;
  EXPECT_TRUE(on_call->poll(second)) << "both end in one go";
}

TEST_F(ProgressEngineTest, AMessageThatEndsGivesNobodysTurnAway) {
  start(*on_call, 0);
  const auto message = start_message(3);
  const auto second = start(*on_call, 1);
  message->ends = true;
  EXPECT_TRUE(on_call->poll(message));
  EXPECT_EQ(second->looks, 0);
}

/// Combining large tensors takes long: meanwhile the rank must be able to issue the next operation.
TEST_F(ProgressEngineTest, IssuingDoesNotWaitForWhatTheThreadIsDoing) {
  const auto engine = make(Progress::kThread);
  const auto slow = std::make_shared<FakeOperation>(0);
  slow->goes_on = false;
  start(*engine, slow);
  while (slow->looks == 0) std::this_thread::yield();
  start(*engine, 1);  // hangs if it waits for the first one's advance()
  EXPECT_EQ(engine->stats()[OpKind::kBarrier].operations, 0U);
  slow->goes_on = true;
}

TEST_F(ProgressEngineTest, AFailedOperationLetsTheNextOneBegin) {
  const auto first = start(*on_call, 0);
  const auto second = start(*on_call, 1);
  first->fails = true;
  second->ends = true;
  EXPECT_TRUE(on_call->poll(second));
  EXPECT_THROW(static_cast<void>(on_call->poll(first)), CommMismatch);
}

// Others wait for what failed here: what comes behind it may never end.
TEST_F(ProgressEngineTest, ALongWaitTellsWhatFailedBeforeIt) {
  const auto first = start(*on_call, 0);
  const auto second = start(*on_call, 1);
  first->fails = true;
  EXPECT_EQ(message_of<CommMismatch>([&] { on_call->wait(second); }),
            "barrier #0 of 'dp': sizes differ");
}

TEST_F(ProgressEngineTest, AnErrorIsThrownAtEachWaitForItsOperationAndNotAtTheEnd) {
  const auto operation = start(*on_call, 7);
  operation->fails = true;
  Work work(on_call, operation);
  Work copy = work;
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(message_of<CommMismatch>([&] { work.wait(); }), "barrier #7 of 'dp': sizes differ");
    EXPECT_THROW(static_cast<void>(work.done()), CommMismatch);
    EXPECT_THROW(copy.wait(), CommMismatch) << "what it received is garbage for everybody";
  }
  EXPECT_NO_THROW(on_call->finish());
}

TEST_F(ProgressEngineTest, TheErrorOfAForgottenOperationComesAtTheEnd) {
  start(*on_call, 7)->fails = true;
  EXPECT_THROW(on_call->finish(), CommMismatch);
}

TEST_F(ProgressEngineTest, ForgottenOperationsAreWaitedFor) {
  const auto engine = make(Progress::kThread);
  const auto operation = start(*engine, 0);
  std::jthread later = end_later(operation);
  engine->finish();
  EXPECT_TRUE(operation->ends);
  later.join();
}

TEST_F(ProgressEngineTest, WaitingIsAPartOfBeingBusy) {
  const auto operation = start(*on_call, 0);
  std::this_thread::sleep_for(milliseconds(20));
  std::jthread later = end_later(operation);
  on_call->wait(operation);
  later.join();
  const CommStats stats = on_call->stats();
  EXPECT_GE(stats.busy_seconds, 0.02);
  EXPECT_GT(stats.exposed_seconds, 0.0);
  EXPECT_LE(stats.exposed_seconds, stats.busy_seconds - 0.015) << "it did not wait from the start";
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(on_call->stats().busy_seconds, stats.busy_seconds) << "nothing is under way";
}

TEST_F(ProgressEngineTest, TellsItsObserverInTheOrderOfTheEnds) {
  Log log;
  on_call->set_observer(&log);
  const auto first = start(*on_call, 0);
  const auto message = start_message(9);
  message->ends = true;
  on_call->poll();
  first->ends = true;
  on_call->wait(first);
  EXPECT_THAT(log.ended, ElementsAre(9, 0));
  EXPECT_THAT(log.waits, ElementsAre(0));
  on_call->set_observer(nullptr);
  start(*on_call, 1)->ends = true;
  on_call->poll();
  EXPECT_EQ(log.ended.size(), 2U);
}

/// The rank that is missed got next to nothing of a core in the wait, and was ready for it.
TEST_F(ProgressEngineTest, AWaitThatLastsTooLongTellsAStarvedRankFromAHang) {
  monitor->ranks.resize(4);
  monitor->ranks[2].state = RankActivity::State::kComputes;
  monitor->ranks[2].processor = ProcessorTime{};
  monitor->queued_per_look = 100;
  ProgressEngine engine(monitor, until(milliseconds(50)));
  const auto operation = start(engine, 4);
  EXPECT_THAT(message_of<CommTimeout>([&] { engine.wait(operation); }),
              AllOf(HasSubstr("rank 2 was 0 s on a core and 100 s in line for one: starved"),
                    HasSubstr("Who is starved is not stuck")));
}

TEST_F(ProgressEngineTest, AWaitSaysWhatItWaitsForUntilItEnds) {
  monitor->all_blocked = true;
  const auto operation = start(*on_call, 4);
  EXPECT_THROW(on_call->wait(operation), Deadlock);
  EXPECT_THAT(monitor->blocked, ElementsAre("barrier #4 of 'dp': rank 2 has not arrived"));
  EXPECT_EQ(monitor->moving, 1) << "it does not wait any longer";
}

TEST_F(ProgressEngineTest, AnOperationThatHasNotBegunNamesTheOneBeforeIt) {
  ProgressEngine engine(monitor, until(milliseconds(30)));
  start(engine, 4);
  start(engine, std::make_shared<FakeOperation>(8, Operation::Order::kInTurn, 1));
  const auto last = start(engine, 5);
  EXPECT_THAT(message_of<CommTimeout>([&] { engine.wait(last); }),
              HasSubstr("barrier #5 of 'dp', which comes after barrier #4 of 'dp': rank 2 has not "
                        "arrived"));
}

TEST_F(ProgressEngineTest, WhoOnlyAsksTimesOutToo) {
  ProgressEngine engine(monitor, until(milliseconds(60)));
  const auto operation = start(engine, 0);
  const auto ask = [&] {
    while (!engine.poll(operation)) std::this_thread::yield();
  };
  EXPECT_THROW(ask(), CommTimeout);
  EXPECT_TRUE(monitor->blocked.empty()) << "it can do something else: no deadlock";
}

TEST_F(ProgressEngineTest, ComputingBetweenQuestionsIsNotWaiting) {
  ProgressEngine engine(monitor, until(milliseconds(300)));
  const auto operation = start(engine, 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(engine.poll(operation));
    std::this_thread::sleep_for(milliseconds(80));
  }
}

/// As a pipeline sends: something is always under way, and nothing is for long.
TEST_F(ProgressEngineTest, QuestionsAboutOneMessageAfterTheOtherAreNotOneWait) {
  constexpr auto kTimeout = milliseconds(200);
  ProgressEngine engine(monitor, until(kTimeout));
  Sender sender(engine);
  const auto end = Clock::now() + 3 * kTimeout;
  while (Clock::now() < end) ASSERT_NO_THROW(sender.send());
}

/// The last ones wait for more than a time-out behind others, which a slower rank takes one by one.
TEST_F(ProgressEngineTest, AMessageInAQueueThatMovesIsNotStuck) {
  constexpr auto kTimeout = milliseconds(200);
  ProgressEngine engine(monitor, until(kTimeout));
  Sender sender(engine, 2);
  const auto end = Clock::now() + 4 * kTimeout;
  while (Clock::now() < end) ASSERT_NO_THROW(sender.send());
}

TEST_F(ProgressEngineTest, AmongMessagesThatPassTheOneThatNobodyTakesIsNamedAfterItsOwnTime) {
  constexpr auto kTimeout = milliseconds(200);
  ProgressEngine engine(monitor, until(kTimeout));
  Sender sender(engine);
  const auto others_alone = Clock::now() + kTimeout / 2;
  while (Clock::now() < others_alone) sender.send();
  const auto starved = start(engine, std::make_shared<FakeOperation>(2, 1'000'000));
  const auto begin = Clock::now();
  const auto ask = [&] {
    for (;; sender.send()) static_cast<void>(engine.poll(starved));
  };
  EXPECT_THAT(message_of<CommTimeout>(ask),
              HasSubstr("rank 3 has waited 0.2 s in send #1000000 of 'pp' (0 f32 to rank 2)"));
  EXPECT_GE(Clock::now() - begin, kTimeout);
}

TEST_F(ProgressEngineTest, ARankThatDelaysMessagesItselfIsNotBlocked) {
  monitor->all_blocked = true;
  const auto alarm = [] { return std::optional(Clock::now() + milliseconds(1)); };
  ProgressEngine engine(monitor, until(milliseconds(60), alarm));
  const auto operation = start(engine, 0);
  EXPECT_THROW(engine.wait(operation), CommTimeout);
  EXPECT_TRUE(monitor->blocked.empty());
}

TEST_F(ProgressEngineTest, WithdrawsWhatIsUnderWayWhenItIsAbandoned) {
  auto operation = start(*on_call, 0);
  const std::weak_ptr<FakeOperation> watched = operation;
  operation.reset();
  EXPECT_FALSE(watched.expired());
  on_call->abandon();
  EXPECT_TRUE(watched.expired());
  EXPECT_THAT(message_of<CommError>([&] { start(*on_call, 1); }),
              HasSubstr("barrier #1 of 'dp' begins after its rank has ended"));
}

TEST_F(ProgressEngineTest, AHandleThatOutlivesItsRankSaysSo) {
  Work work(on_call, start(*on_call, 2));
  on_call->abandon();
  EXPECT_EQ(message_of<CommError>([&] { work.wait(); }),
            "barrier #2 of 'dp' belongs to a rank that has ended");
}

TEST_F(ProgressEngineTest, AWaitForOneOfManyIsExposedAndToldAsTheOneThatEnded) {
  Log log;
  on_call->set_observer(&log);
  const auto one = start_message(8);
  const auto other = start_message(9);
  std::jthread later = end_later(other);
  Work works[] = {Work(on_call, one), Work(on_call, other)};
  EXPECT_EQ(wait_any(works), 1U);
  later.join();
  EXPECT_GT(on_call->stats().exposed_seconds, 0.0);
  EXPECT_THAT(log.waits, ElementsAre(9));
}

TEST_F(ProgressEngineTest, TheErrorOfOneOfManyIsThrownOnce) {
  const auto bad = start_message(8);
  const auto good = start_message(9);
  bad->fails = true;
  good->ends = true;
  Work works[] = {Work(on_call, bad), Work(on_call, good)};
  EXPECT_EQ(message_of<CommMismatch>([&] { return wait_any(works); }),
            "barrier #8 of 'dp': sizes differ");
  EXPECT_EQ(wait_any(works), 1U);
  EXPECT_NO_THROW(on_call->finish());
}

TEST_F(ProgressEngineTest, AWaitForOneOfManyNamesTheFirstOfThem) {
  ProgressEngine engine(monitor, until(milliseconds(30)));
  std::vector<std::shared_ptr<FakeOperation>> some;
  std::vector<const Operation*> operations{nullptr};
  for (std::uint32_t i = 0; i < 6; ++i) {
    some.push_back(std::make_shared<FakeOperation>(i, Operation::Order::kAnyTime));
    operations.push_back(start(engine, some.back()).get());
  }
  EXPECT_THAT(message_of<CommTimeout>([&] { return engine.wait_any(operations); }),
              AllOf(HasSubstr("in wait_any of 6 operations: barrier #0 of 'dp': rank 2 has not "
                              "arrived; barrier #1 of 'dp': "),
                    HasSubstr("barrier #3 of 'dp': rank 2 has not arrived; and 2 others.")));
}

TEST_F(ProgressEngineTest, OneOfManyNeedsManyOfOneRank) {
  std::vector<Work> nothing(3);
  EXPECT_THAT(message_of<ConfigError>([&] { return wait_any(nothing); }),
              HasSubstr("none of the 3 works is under way"));
  EXPECT_THROW(static_cast<void>(wait_any({})), ConfigError);
  const auto other = make(Progress::kOnCall);
  Work works[] = {Work(on_call, start(*on_call, 0)), Work(other, start(*other, 0))};
  EXPECT_THAT(message_of<ConfigError>([&] { return wait_any(works); }), HasSubstr("several ranks"));
  on_call->abandon();
  EXPECT_EQ(message_of<CommError>([&] { return wait_any(std::span(works).first(1)); }),
            "barrier #0 of 'dp' belongs to a rank that has ended");
}

}  // namespace
}  // namespace ultra::comm
