#include "common/train/report/rank_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/comm/run_ranks.hpp"
#include "tests/support/random.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

class ClockOffset : public ultra::test::RandomTest {
 protected:
  /// Readings of a clock that is `offset` ahead, over ways of `shortest` seconds and more.
  std::vector<ClockReading> readings(double offset, double shortest) {
    std::vector<ClockReading> result;
    double now = 1000.0;
    for (int i = 0; i < 8; ++i) {
      const double there = shortest + random.uniform(0.0, 1e-3);
      const double back = shortest + random.uniform(0.0, 1e-3);
      result.push_back(
          {.asked = now, .told = now + there + offset, .answered = now + there + back});
      now += 1.0;
    }
    return result;
  }
};

TEST_F(ClockOffset, IsFoundToHalfTheShortestWay) {
  for (const double offset : {5.0, -5.0, 1e6, -0.05}) {
    const std::vector<ClockReading> given = readings(offset, 1e-4);
    double shortest = 1.0;
    for (const ClockReading& r : given) shortest = std::min(shortest, r.answered - r.asked);
    EXPECT_NEAR(clock_offset(given), offset, shortest / 2 + 1e-9);
  }
}

TEST_F(ClockOffset, OneClockHasNone) {
  EXPECT_EQ(clock_offset(readings(0.0, 1e-6)), 0.0) << "exactly";
}

TEST_F(ClockOffset, OneReadingOutsideItsWayIsAnotherClock) {
  std::vector<ClockReading> given = readings(0.0, 1e-4);
  for (ClockReading& reading : given) reading.told += 0.01;
  EXPECT_NEAR(clock_offset(given), 0.01, 1.1e-3);
}

TEST(CommonMoment, IsTheSameOnAllRanksOfAMachine) {
  for (const int size : {1, 2, 4}) {
    run_ranks(size, [&](Communicator& world) {
      const auto before = std::chrono::steady_clock::now();
      world.barrier().wait();  // rank 0 comes out of it after every rank has come to it
      const auto moment = common_moment(world);
      EXPECT_LE(moment, std::chrono::steady_clock::now());
      EXPECT_GE(moment, before);
      const std::chrono::duration<double> seconds = moment.time_since_epoch();
      ultra::test::expect_same_on_all(world, {seconds.count()});
    });
  }
}

}  // namespace
}  // namespace ultra::train
