#pragma once
/// @file
/// What a progress engine works with, in the hands of a test: operations that end when it says so,
/// and a view of the other ranks that it paints.

#include <atomic>

#include "common/comm/engine/progress_engine.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra::comm {

using Clock = ProgressEngine::Clock;

/// A rank that hears nothing of the others but what the test says.
class FakeMonitor : public RankMonitor {
 public:
  int world_rank() const override { return 3; }
  std::uint64_t events() const override { return 0; }
  void sleep(std::uint64_t /*seen*/, Clock::time_point until) override {
    std::this_thread::sleep_until(std::min(until, Clock::now() + milliseconds(1)));
  }
  void wake() override {}
  int spins() const override { return 0; }
  void check(const std::string& doing) override {
    if (failed) throw RankFailed(1, ErrorKind::kOther, "rank 1 has failed: " + doing);
  }
  void report_blocked(std::uint64_t /*seen*/, const std::string& doing) override {
    blocked.push_back(doing);
    if (all_blocked) throw Deadlock("deadlock: " + doing);
  }
  void report_moving() override { ++moving; }
  std::vector<RankActivity> activities() override {
    std::vector<RankActivity> seen = ranks;
    for (RankActivity& rank : ranks) {
      if (rank.processor) rank.processor->queued += queued_per_look;
    }
    return seen;
  }

  std::atomic<bool> failed{false};
  bool all_blocked = false;
  std::vector<std::string> blocked;
  int moving = 0;
  std::vector<RankActivity> ranks;
  double queued_per_look = 0;
};

/// Ends when it is told to.
class FakeOperation : public Operation {
 public:
  explicit FakeOperation(std::uint32_t sequence, Order order = Order::kInTurn,
                         std::uint64_t communicator = 0)
      : Operation({.kind = OpKind::kBarrier,
                   .communicator = "dp",
                   .communicator_id = communicator,
                   .sequence = sequence},
                  order) {}
  /// A message to rank `peer`.
  FakeOperation(int peer, std::uint32_t sequence)
      : Operation({.kind = OpKind::kSend, .communicator = "pp", .sequence = sequence, .root = peer},
                  Order::kAnyTime) {}

  bool advance() override {
    ++looks;
    while (!goes_on) std::this_thread::yield();
    if (fails) throw CommMismatch("sizes differ");
    return ends;
  }
  std::string waits_for() const override { return "rank 2 has not arrived"; }
  std::size_t sent_bytes() const override { return 10; }

  std::atomic<int> looks{0};
  std::atomic<bool> goes_on{true};
  std::atomic<bool> ends{false};
  std::atomic<bool> fails{false};
};

class Log : public CommObserver {
 public:
  void operation_ended(const OperationInfo& info, std::size_t sent_bytes, Clock::time_point begin,
                       Clock::time_point end) override {
    EXPECT_EQ(sent_bytes, 10U);
    EXPECT_LE(begin, end);
    ended.push_back(info.sequence);
  }
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override {
    EXPECT_LE(begin, end);
    waits.push_back(info.sequence);
  }

  std::vector<std::uint32_t> ended;
  std::vector<std::uint32_t> waits;
};

}  // namespace ultra::comm
