#include "chapters/03_data_parallel/parameter_server/send_queue.hpp"

#include "common/comm/comm_error.hpp"
#include "common/comm/engine/operation.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using comm::Operation;

/// A send that ends when it is told to, and writes down when it begins.
class FakeSend : public Operation {
 public:
  FakeSend(std::uint32_t sequence, std::vector<std::uint32_t>& begun)
      : Operation({.kind = OpKind::kSend,
                   .communicator = "world",
                   .sequence = sequence,
                   .count = 5,
                   .root = 1},
                  Order::kAnyTime),
        begun_(begun) {}

  bool advance() override {
    if (!began) begun_.push_back(info().sequence);
    began = true;
    if (fails) throw CommError("the wire is cut");
    return ends;
  }
  std::string waits_for() const override { return "rank 1 has not taken the message"; }
  std::size_t sent_bytes() const override { return 20; }

  bool began = false;
  bool ends = false;
  bool fails = false;

 private:
  std::vector<std::uint32_t>& begun_;
};

class SendQueueTest : public ::testing::Test {
 protected:
  /// Issues the next send with this priority; its number is the order of issue.
  void issue(int priority) {
    sends.push_back(std::make_shared<FakeSend>(static_cast<std::uint32_t>(sends.size()), begun));
    queued.push_back(in_turn(sends.back(), {.queue = queue, .priority = priority}));
  }
  void issue(const std::vector<int>& priorities) {
    for (const int priority : priorities) issue(priority);
  }
  /// As the engine does: one look at each, in the order of issue.
  void pass() {
    for (auto& operation : queued) {
      if (operation && operation->advance()) operation.reset();
    }
  }
  /// Lets sends end as they begin, until all have.
  void run() {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      for (const std::uint32_t number : std::vector<std::uint32_t>(begun)) {
        sends[number]->ends = true;
      }
      pass();
    }
  }

  std::shared_ptr<SendQueue> queue = std::make_shared<SendQueue>(1);
  std::vector<std::uint32_t> begun;
  std::vector<std::shared_ptr<FakeSend>> sends;
  std::vector<std::shared_ptr<Operation>> queued;
};

TEST_F(SendQueueTest, TheMostUrgentBeginsFirst) {
  issue({5, 1, 7, 3});
  pass();
  EXPECT_THAT(begun, ElementsAre(1));
  run();
  EXPECT_THAT(begun, ElementsAre(1, 3, 0, 2));
}

TEST_F(SendQueueTest, TheEquallyUrgentBeginInTheOrderOfIssue) {
  issue({2, 1, 2, 1, 2, 1});
  run();
  EXPECT_THAT(begun, ElementsAre(1, 3, 5, 0, 2, 4));
}

TEST_F(SendQueueTest, AnUrgentOneOvertakesThoseThatWaitButNotThoseOnTheirWay) {
  issue({5, 6});
  pass();
  issue(1);
  pass();
  EXPECT_THAT(begun, ElementsAre(0));
  run();
  EXPECT_THAT(begun, ElementsAre(0, 2, 1));
}

TEST_F(SendQueueTest, AsManyAreOnTheirWayAsTheWindowSays) {
  queue = std::make_shared<SendQueue>(3);
  EXPECT_EQ(queue->window(), 3);
  EXPECT_EQ(SendQueue().window(), SendQueue::kDefaultWindow);
  issue({9, 8, 7, 6, 5});
  pass();
  EXPECT_THAT(begun, ElementsAre(4, 3, 2)) << "in the order of their urgency";
  sends[3]->ends = true;
  pass();
  EXPECT_THAT(begun, ElementsAre(4, 3, 2, 1));
}

TEST_F(SendQueueTest, TheNextBeginsInThePassInWhichOneEnds) {
  issue({2, 1});
  pass();
  ASSERT_THAT(begun, ElementsAre(1));
  sends[1]->ends = true;
  pass();  // looks at the first before the second has ended
  EXPECT_THAT(begun, ElementsAre(1, 0));
}

TEST_F(SendQueueTest, AWithdrawnSendFreesItsPlace) {
  issue({1, 2, 3, 4});
  pass();
  queued[1].reset();  // waits
  queued[0].reset();  // on its way
  EXPECT_THAT(begun, ElementsAre(0)) << "its rank may be withdrawing them all";
  pass();
  EXPECT_THAT(begun, ElementsAre(0, 2));
  run();
  EXPECT_THAT(begun, ElementsAre(0, 2, 3));
}

TEST_F(SendQueueTest, AnErrorIsItsOwnSendsAndFreesItsPlace) {
  issue({3, 1, 2});
  sends[2]->fails = true;  // as soon as it begins
  pass();
  sends[1]->ends = true;
  EXPECT_FALSE(queued[0]->advance());
  EXPECT_TRUE(queued[1]->advance()) << "the error that the next one begins with is not its own";
  EXPECT_THAT(begun, ElementsAre(1, 2));
  EXPECT_EQ(message_of<CommError>([&] { static_cast<void>(queued[2]->advance()); }),
            "the wire is cut");
  EXPECT_THAT(begun, ElementsAre(1, 2, 0));
}

TEST_F(SendQueueTest, AWaitingSendSaysWhatItWaitsBehind) {
  issue({3, 1, 2});
  EXPECT_EQ(queued[0]->waits_for(), "it waits for its turn behind 2 more urgent messages");
  pass();
  const std::string on_its_way =
      "; on their way: send #1 of 'world' (5 f32 to rank 1): rank 1 has not taken the message";
  EXPECT_EQ(queued[0]->waits_for(),
            "it waits for its turn behind 1 more urgent message" + on_its_way);
  EXPECT_EQ(queued[1]->waits_for(), "rank 1 has not taken the message");
  EXPECT_EQ(queued[2]->waits_for(), "it waits for its turn" + on_its_way);
}

TEST_F(SendQueueTest, ASendBeginsWhenItsTurnHasCome) {
  issue({1, 2});
  pass();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_LE(queued[0]->begin_time(), before);
  EXPECT_EQ(queued[1]->begin_time(), std::nullopt);
  EXPECT_EQ(queued[1]->sent_bytes(), 20U);
  EXPECT_EQ(queued[1]->info().sequence, 1U);
  sends[0]->ends = true;
  pass();
  EXPECT_GE(queued[1]->begin_time(), before);
}

TEST_F(SendQueueTest, NeedsAWindow) {
  EXPECT_THAT(message_of<ConfigError>([] { SendQueue(0); }), HasSubstr("at least 1 send"));
}

TEST_F(SendQueueTest, BelongsToOneRank) {
  issue(1);
  std::thread([&] {
    EXPECT_THAT(message_of<ConfigError>([&] { issue(2); }), HasSubstr("make one for each"));
  }).join();
}

}  // namespace
}  // namespace ultra::data_parallel
