// Queued sends between ranks: who overtakes whom, and what reaches whom.

#include "chapters/03_data_parallel/parameter_server/send_queue.hpp"

#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/ranks/star_algorithms.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::data_parallel {
namespace {

using std::chrono::milliseconds;
using test::is_a;

constexpr double kPromptly = 10;
// Nobody can send so much before its receiver has asked for it.
constexpr std::size_t kLarge = std::size_t{1} << 18U;

Tensor filled(std::size_t count, double value) {
  const Tensor tensor = Tensor::empty(Device::cpu(), {count}, DType::kF32);
  tensor.fill(value);
  return tensor;
}

class SendQueueRanks : public test::RandomTest, public ::testing::WithParamInterface<Progress> {
 protected:
  SendQueueRanks() {
    options.timeout = std::chrono::seconds(100);
    options.progress = GetParam();
    options.algorithms = std::make_shared<test::StarAlgorithms>();
  }

  RankOptions options;

 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

/// Every rank sends to all members of two groups, all of it through one queue.
void exchange(Communicator& world, int window, const std::vector<std::size_t>& counts,
              const std::vector<int>& priorities) {
  const Communicator other = world.split([](int rank) { return rank % 2; }, "half");
  const auto queue = std::make_shared<SendQueue>(window);
  std::vector<Work> works;
  std::vector<Tensor> received;
  std::vector<double> expected;
  for (const Communicator& group : {world, other}) {
    for (std::uint32_t i = 0; i < counts.size(); ++i) {
      for (int peer = 0; peer < group.size(); ++peer) {
        received.push_back(filled(counts[i], -1));
        expected.push_back(group.world_rank(peer) + 100.0 * static_cast<double>(i));
        works.push_back(group.recv(received.back(), peer, {0, i}));
      }
    }
  }
  for (std::uint32_t i = 0; i < counts.size(); ++i) {
    const Tensor data = filled(counts[i], world.rank() + 100.0 * static_cast<double>(i));
    for (const Communicator& group : {world, other}) {
      for (int peer = 0; peer < group.size(); ++peer) {
        works.push_back(send_in_turn(group, data, peer, {0, i}, {queue, priorities[i]}));
      }
    }
  }
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < received.size(); ++i) {
    for (const float value : received[i].span<float>()) {
      ASSERT_EQ(value, static_cast<float>(expected[i]));
    }
  }
}

TEST_P(SendQueueRanks, EverySendReachesItsReceive) {
  for (int round = 0; round < 6; ++round) {
    const int window = static_cast<int>(random.between(1, 3));
    std::vector<std::size_t> counts;
    std::vector<int> priorities;
    for (int i = 0; i < 10; ++i) {
      counts.push_back(random.pick<std::size_t>({0, 1, 300, 5000, 200000}));
      priorities.push_back(static_cast<int>(random.between(0, 4)) - 2);
    }
    options.link.reset();
    if (round % 2 == 1) options.link = LinkSpeed{.latency = 20e-6, .bytes_per_second = 2e9};
    run_ranks(
        4, [&](Communicator& world) { exchange(world, window, counts, priorities); }, options);
  }
}

TEST_P(SendQueueRanks, AFailedRankHoldsNobodyUp) {
  constexpr int kFailing = 2;
  const auto pause = milliseconds(random.between(0, 20));
  const test::Fates fates = test::fates_of(
      4,
      [&](Communicator& world) {
        const auto queue = std::make_shared<SendQueue>();
        const Tensor data = filled(kLarge, 1);
        std::vector<Work> works;
        world.barrier().wait();
        for (std::uint32_t i = 0; i < 20; ++i) {
          for (int peer = 0; peer < world.size(); ++peer) {
            if (peer == world.rank()) continue;
            works.push_back(send_in_turn(world, data, peer, {0, i}, {queue, -static_cast<int>(i)}));
          }
        }
        std::this_thread::sleep_for(pause);
        if (world.rank() == kFailing) throw NumericError("the loss is NaN");
        if (world.rank() == 1) works.clear();  // told at its end
        for (Work& work : works) work.wait();
      },
      options);
  EXPECT_NE(fates.thrown, nullptr);
  for (const auto& [rank, fate] : fates.ranks) {
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
    EXPECT_LT(fate.seconds, kPromptly);
    if (rank == 0 || rank == 3) {
      EXPECT_TRUE(is_a<RankFailed>(fate.error));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(By, SendQueueRanks,
                         ::testing::Values(Progress::kThread, Progress::kOnCall),
                         [](const auto& param) {
                           return param.param == Progress::kThread ? "Thread" : "OnCall";
                         });

}  // namespace
}  // namespace ultra::data_parallel
