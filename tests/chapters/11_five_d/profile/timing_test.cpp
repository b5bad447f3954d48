// How the profile takes time: what all ranks agree on, beside work whose least time is known.
//
// Covers: chapters/11_five_d/profile/timing.hpp
#include "chapters/11_five_d/profile/timing.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "common/comm/run_ranks.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::profile {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Fails on a rank that has another number than rank 0. Collective.
void expect_same_on_all(const Communicator& world, double number) {
  const Tensor first =
      Tensor::from<double>(Device::cpu(), {1}, std::vector<double>{number}).clone();
  world.broadcast(first, 0);
  EXPECT_EQ(first.to_vector().front(), number) << "rank " << world.rank();
}

TEST(Timing, ACallTakesWhatTheSlowestRankTakes) {
  run_ranks(2, [](Communicator& world) {
    const double least = 0.003 * (world.rank() + 1);
    const double seconds = seconds_of(world, [&] { sleep_for(least); });
    EXPECT_GE(seconds, 0.006);
    expect_same_on_all(world, seconds);
  });
}

TEST(Timing, ShortCallsAreMadeOftenAndCountOnce) {
  run_ranks(1, [](Communicator& world) {
    const auto begin = Clock::now();
    int calls = 0;
    const double seconds = seconds_of(world, [&] { ++calls; });
    EXPECT_GT(calls, 9);  // as many as there are rounds
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds * calls, seconds_since(begin));  // of one call, and the fastest
  });
}

TEST(Timing, ExchangesAreMadeAsOftenOnEveryRank) {
  run_ranks(2, [](Communicator& world) {
    int made = 0;
    const double seconds = exchange_seconds(
        world,
        [&] {
          ++made;
          if (world.rank() == 1) sleep_for(0.002);
          world.barrier();
        },
        4);
    EXPECT_EQ(made % 4, 0);
    EXPECT_GE(seconds, 0.002);
    expect_same_on_all(world, seconds);
    expect_same_on_all(world, made);
  });
}

TEST(Timing, RanksThatWaitForASlowerOneDeviate) {
  std::atomic<double> shorter = 0;  // what rank 0 took in this round
  run_ranks(2, [&](Communicator& world) {
    // One works at least three times as long, however long the other one slept: a half more than the
    // mean, over sqrt(2 ln 2).
    const double deviation = deviation_of(world, [&] {
      const auto begin = Clock::now();
      if (world.rank() == 0) {
        sleep_for(0.01);
        shorter = seconds_since(begin);
        return;
      }
      while (shorter == 0) sleep_for(0.001);
      sleep_for(3 * shorter.exchange(0) - seconds_since(begin));
    });
    EXPECT_GT(deviation, 0.1);
    EXPECT_LT(deviation, 1 / 1.17);  // never more than one rank alone
    expect_same_on_all(world, deviation);
  });
  run_ranks(1, [](Communicator& world) { EXPECT_EQ(deviation_of(world, [] {}), 0); });
}

}  // namespace
}  // namespace ultra::profile
