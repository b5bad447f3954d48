// Messages that both ends name: they meet whatever the order in which they were issued.
//
// Covers: common/comm/work.hpp, common/comm/engine/wait_any.hpp

#include <random>

#include "common/comm/engine/wait_any.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

class NamedMessageRanks : public ProgressRanks {
 protected:
  /// 0, 1, ... in random order.
  std::vector<std::uint32_t> shuffled(std::uint32_t count, std::uint64_t salt) const {
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(seed + salt));
    return numbers;
  }
};

TEST_P(NamedMessageRanks, MeetInAnyOrder) {
  constexpr std::uint32_t kMessages = 30;
  const auto base = static_cast<std::uint32_t>(random.between(0, 1000));
  const std::size_t count = random.pick<std::size_t>({0, 1, 70, 50000});
  const auto value_of = [](int sender, int channel, std::uint32_t n) {
    return sender * 1000.0 + channel * 100 + n;
  };
  ranks_with(options, 3, [&](Communicator& world) {
    const auto rank = static_cast<std::uint64_t>(world.rank());
    std::vector<Work> works;
    std::vector<std::pair<double, Tensor>> received;  // and the value that it shall have
    const auto for_all = [&](std::uint64_t salt, const auto& issue) {
      for (const std::uint32_t n : shuffled(kMessages, salt + rank)) {
        for (int peer = 0; peer < 3; ++peer) {
          for (const int channel : {0, 1}) issue(peer, channel, n);
        }
      }
    };
    for_all(10, [&](int peer, int channel, std::uint32_t n) {
      received.emplace_back(value_of(peer, channel, n), filled(count, -1));
      works.push_back(world.recv(received.back().second, peer, {channel, base + n}));
    });
    for_all(20, [&](int peer, int channel, std::uint32_t n) {
      const Tensor data = filled(count, value_of(world.rank(), channel, n));
      works.push_back(world.send(data, peer, {channel, base + n}));
    });
    for (Work& work : works) work.wait();
    for (const auto& [value, data] : received) {
      ASSERT_EQ(data.to_vector(), std::vector<double>(count, value));
    }
    EXPECT_EQ(world.stats()[OpKind::kSend].sent_bytes, 2 * 2 * kMessages * count * 4);
  });
}

TEST_P(NamedMessageRanks, NeverMeetThoseThatAreMatchedByOrder) {
  ranks_with(options, 2, [](Communicator& world) {
    const int other = 1 - world.rank();
    const Tensor named = filled(3, -1);
    const Tensor ordered = filled(3, -1);
    std::vector<Work> works;
    works.push_back(world.recv(named, other, {5, 0}));
    works.push_back(world.recv(ordered, other, 5));
    works.push_back(world.send(filled(3, 1), other, 5));
    works.push_back(world.send(filled(3, 2), other, {5, 0}));
    for (Work& work : works) work.wait();
    EXPECT_EQ(named.to_vector().front(), 2.0);
    EXPECT_EQ(ordered.to_vector().front(), 1.0);
  });
}

TEST_P(NamedMessageRanks, AreNamedInErrors) {
  ranks_with(options, 1, [](Communicator& world) {
    const std::string message = message_of<ConfigError>([&] {
      static_cast<void>(Work(world.send(filled(1, 0), 0, {31, 7})));
    });
    EXPECT_THAT(message, HasSubstr("send: there is no channel 31"));
    EXPECT_THROW(static_cast<void>(Work(world.recv(filled(1, 0), 1, {0, 7}))), ShapeError);
  });
  options.timeout = std::chrono::milliseconds(300);
  try {
    ranks_with(options, 2, [](Communicator& world) {
      world.barrier().wait();
      if (world.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        return;
      }
      world.labeled("weights").recv(filled(1, 0), 1, {3, 77}).wait();
    });
    ADD_FAILURE() << "nobody sent that message";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(worded("recv #77 of 'world' (1 f32 from rank 1) [weights]")));
  }
}

INSTANTIATE_TEST_SUITE_P(By, NamedMessageRanks, kinds_of_progress(), progress_name);

// A rank that serves whoever comes first.

constexpr double kAtOnce = 10;
constexpr int kRanks = 4;

Tensor five(double value) { return filled(5, value); }

class WaitAnyRanks : public ProgressRanks {};

TEST_P(WaitAnyRanks, ReturnsTheFirstToEndAndEachOnce) {
  ranks_with(options, 1, [](Communicator& world) {
    std::vector<Work> works(4);  // the last is none
    for (int channel = 0; channel < 3; ++channel) {
      works[static_cast<std::size_t>(channel)] = world.recv(five(0), 0, channel);
    }
    for (const int channel : {2, 0, 1}) {
      Work same = works[static_cast<std::size_t>(channel)];
      Work sent = world.send(five(1), 0, channel);
      same.wait();
      sent.wait();
    }
    for (const std::size_t expected : {2U, 0U, 1U}) EXPECT_EQ(wait_any(works), expected);
    EXPECT_THROW(static_cast<void>(wait_any(works)), ConfigError);
  });
}

/// Rank 0 of a server: receives from each other rank what it sends, and answers it.
void serve(const Communicator& world, const std::vector<int>& rounds) {
  std::vector<Tensor> data;
  std::vector<Work> works;
  std::vector<int> left(rounds);
  int all = 0;
  for (int worker = 1; worker < world.size(); ++worker) {
    data.push_back(five(-1));
    works.push_back(world.recv(data.back(), worker));
    all += rounds[static_cast<std::size_t>(worker)];
  }
  for (; all > 0; --all) {
    const std::size_t index = wait_any(works);
    const std::size_t worker = index + 1;
    EXPECT_EQ(data[index].to_vector().front(),
              static_cast<double>(100 * worker) + static_cast<double>(left[worker]));
    world.send(data[index], static_cast<int>(worker), 1).wait();
    if (--left[worker] > 0) {
      works[index] = world.recv(data[index], static_cast<int>(worker));
    }
  }
  EXPECT_THROW(static_cast<void>(wait_any(works)), ConfigError) << "all workers are done";
}

void work(const Communicator& world, int rounds) {
  for (; rounds > 0; --rounds) {
    const Tensor data = five(100 * world.rank() + rounds);
    world.send(data, 0).wait();
    world.recv(data, 0, 1).wait();
  }
}

TEST_P(WaitAnyRanks, ServesEveryWorkerAsItComes) {
  for (int round = 0; round < 5; ++round) {
    std::vector<int> rounds{0};
    for (int worker = 1; worker < kRanks; ++worker) {
      rounds.push_back(static_cast<int>(random.between(1, 30)));
    }
    ranks_with(options, kRanks, [&](Communicator& world) {
      if (world.rank() == 0) return serve(world, rounds);
      work(world, rounds[static_cast<std::size_t>(world.rank())]);
    });
  }
}

TEST_P(WaitAnyRanks, AFailedRankEndsIt) {
  const test::Fates fates = fates_with(options, 3, [](Communicator& world) {
    if (world.rank() == 2) throw NumericError("the loss is NaN");
    std::vector<Work> works;
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != world.rank()) works.push_back(world.recv(five(0), peer));
    }
    static_cast<void>(wait_any(works));
  });
  for (const auto& [rank, fate] : fates.ranks) {
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
    EXPECT_LT(fate.seconds, kAtOnce);
    if (rank == 2) continue;
    EXPECT_TRUE(is_a<RankFailed>(fate.error));
    EXPECT_THAT(fate.message, AllOf(HasSubstr("wait_any of 2 operations: "), HasSubstr("rank 2"),
                                    HasSubstr("the loss is NaN")));
  }
}

TEST_P(WaitAnyRanks, ADeadlockEndsIt) {
  if (launched_world_size()) GTEST_SKIP() << "processes do not see that all others wait";
  const test::Fates fates = fates_with(options, 2, [](Communicator& world) {
    std::vector<Work> works{world.recv(five(0), 1 - world.rank(), 0),
                            world.recv(five(0), 1 - world.rank(), 1)};
    static_cast<void>(wait_any(works));
  });
  EXPECT_TRUE(is_a<Deadlock>(fates.thrown));
  EXPECT_THAT(message_of(fates.thrown), HasSubstr("Rank 0 waits in wait_any of 2 operations"));
}

INSTANTIATE_TEST_SUITE_P(By, WaitAnyRanks, kinds_of_progress(), progress_name);

}  // namespace
}  // namespace ultra
