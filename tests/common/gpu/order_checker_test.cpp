// Covers: common/gpu/region.hpp
#include "common/gpu/order_checker.hpp"

#include <array>

#include "tests/support/toolbox.hpp"

namespace ultra::gpu {
namespace {

using enum StreamRole;

/// Two streams of rank 0 and one of rank 1, and some memory.
class OrderCheckerTest : public ::testing::Test {
 protected:
  void reads(OrderChecker::StreamId stream, std::size_t begin, std::size_t bytes) {
    const Region region{memory.data() + begin, bytes};
    checker.use(stream, "a read", {&region, 1}, {});
  }
  void writes(OrderChecker::StreamId stream, std::size_t begin, std::size_t bytes) {
    const Region region{memory.data() + begin, bytes};
    checker.use(stream, "a write", {}, {&region, 1});
  }

  OrderChecker checker;
  OrderChecker::StreamId compute = checker.add_stream(0, kCompute);
  OrderChecker::StreamId communication = checker.add_stream(0, kCommunication);
  OrderChecker::StreamId other_rank = checker.add_stream(1, kCompute);
  std::array<std::byte, 256> memory{};
};

TEST_F(OrderCheckerTest, FindsAReadBehindAWriteWithoutAnEventAndSaysWhatIsMissing) {
  writes(compute, 0, 64);
  const std::string message = message_of<OrderError>([&] { reads(communication, 48, 64); });
  EXPECT_THAT(message, HasSubstr("16 bytes"));
  EXPECT_THAT(message, HasSubstr("rank 0's compute stream writes them in a write"));
  EXPECT_THAT(message, HasSubstr("rank 0's communication stream reads them in a read"));
  EXPECT_THAT(message, HasSubstr("Record an event of rank 0's compute stream after a write"));
  EXPECT_THAT(message, HasSubstr("let rank 0's communication stream wait for it"));
}

TEST_F(OrderCheckerTest, ColumnsOfAMatrixDoNotMeet) {
  const Region left{memory.data(), 8, 16, 16};
  const Region right{memory.data() + 8, 8, 16, 16};
  const Region over_both{memory.data() + 4, 8, 16, 16};
  checker.use(compute, "left", {}, {&left, 1});
  checker.use(communication, "right", {}, {&right, 1});
  EXPECT_THROW(checker.use(compute, "over both", {&over_both, 1}, {}), OrderError);
  EXPECT_THROW(reads(other_rank, 15 * 16, 8), OrderError) << "the last row of the left one";
}

TEST_F(OrderCheckerTest, WhatTheHostHasSeenIsBehindWhatItLaunches) {
  writes(compute, 0, 64);
  checker.seen_by_host(checker.record(compute));
  reads(communication, 0, 64);
}

TEST_F(OrderCheckerTest, WhatOneThreadHasSeenDoesNotHelpAnother) {
  writes(compute, 0, 64);
  std::thread([&] { checker.seen_by_host(checker.record(compute)); }).join();
  EXPECT_THROW(reads(communication, 0, 64), OrderError);
}

TEST_F(OrderCheckerTest, TheHostItselfMustWaitToo) {
  writes(compute, 0, 64);
  const Region region{memory.data(), 64};
  const std::string message = message_of<OrderError>([&] {
    checker.use_by_host("a loop", {&region, 1}, {});
  });
  EXPECT_THAT(message, HasSubstr("the host reads them in a loop"));
  EXPECT_THAT(message, HasSubstr("let the host wait for it"));
  checker.seen_by_host(checker.record(compute));
  checker.use_by_host("a loop", {}, {&region, 1});
  reads(communication, 0, 64);
}

TEST_F(OrderCheckerTest, MemoryThatTheSystemHasBackHasNoHistory) {
  writes(compute, 0, 128);
  checker.forget(memory.data(), 64);
  writes(communication, 0, 64);
  EXPECT_THROW(writes(communication, 64, 64), OrderError);
}

TEST_F(OrderCheckerTest, AStreamThatIsGoneLeavesNoOneElsesPlaceBehind) {
  checker.remove_stream(other_rank);
  const auto next = checker.add_stream(7, kCopy);
  writes(next, 0, 64);
  const std::string message = message_of<OrderError>([&] { reads(compute, 0, 64); });
  EXPECT_THAT(message, HasSubstr("rank 7's copy stream"));
}

/// What the checker says against what a byte-wise record of all accesses says.
class ByteByByte {
 public:
  struct Access {
    std::size_t stream;
    std::size_t number;
    bool writes;
  };
  explicit ByteByByte(std::size_t streams, std::size_t bytes)
      : known_(streams, std::vector<std::size_t>(streams)), history_(bytes) {}

  /// True when every access that meets this one is known to the stream.
  bool access(std::size_t stream, std::size_t begin, std::size_t end, bool writes) {
    bool in_order = true;
    const std::size_t number = ++known_[stream][stream];
    for (std::size_t byte = begin; byte < end; ++byte) {
      for (const Access& earlier : history_[byte]) {
        if (!earlier.writes && !writes) continue;
        in_order &= known_[stream][earlier.stream] >= earlier.number;
      }
    }
    for (std::size_t byte = begin; byte < end; ++byte) {
      history_[byte].push_back({stream, number, writes});
    }
    return in_order;
  }
  void wait(std::size_t stream, std::size_t other) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      known_[stream][i] = std::max(known_[stream][i], known_[other][i]);
    }
  }

 private:
  std::vector<std::vector<std::size_t>> known_;
  std::vector<std::vector<Access>> history_;
};

using RandomOrders = test::RandomTest;

TEST_F(RandomOrders, AreJudgedAsByARecordOfEveryByte) {
  std::array<std::byte, 40> memory{};
  for (int round = 0; round < 200; ++round) {
    OrderChecker checker;
    std::vector<OrderChecker::StreamId> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(checker.add_stream(i, kCompute));
    ByteByByte expected(3, memory.size());
    for (int step = 0; step < 40; ++step) {
      const std::size_t stream = random.between(0, 2);
      if (random.between(0, 1) == 0) {
        const std::size_t other = random.between(0, 2);
        checker.wait(streams[stream], checker.record(streams[other]));
        expected.wait(stream, other);
        continue;
      }
      const std::size_t begin = random.between(0, memory.size() - 1);
      const std::size_t end = random.between(begin + 1, memory.size());
      const bool writes = random.between(0, 1) == 0;
      const Region region{memory.data() + begin, end - begin};
      const std::span<const Region> one(&region, 1);
      bool in_order = true;
      try {
        checker.use(streams[stream], "access", writes ? std::span<const Region>{} : one,
                    writes ? one : std::span<const Region>{});
      } catch (const OrderError&) {
        in_order = false;
      }
      ASSERT_EQ(in_order, expected.access(stream, begin, end, writes)) << "step " << step;
      if (!in_order) break;  // from here on the two need not agree
    }
  }
}

}  // namespace
}  // namespace ultra::gpu
