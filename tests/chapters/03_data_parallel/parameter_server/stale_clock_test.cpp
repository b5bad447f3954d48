#include "chapters/03_data_parallel/parameter_server/stale_clock.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

TEST(StaleClock, WithoutStalenessAllWaitForAll) {
  StaleClock clock(3, 0, 5);
  EXPECT_THAT(clock.complete(1), IsEmpty());
  EXPECT_THAT(clock.complete(0), IsEmpty());
  EXPECT_EQ(clock.slowest(), 0U);
  EXPECT_THAT(clock.complete(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(clock.slowest(), 1U);
}

TEST(StaleClock, LetsAReplicaRunAheadAsFarAsItMay) {
  StaleClock clock(2, 2, 9);
  EXPECT_THAT(clock.complete(0), ElementsAre(0));
  EXPECT_THAT(clock.complete(0), ElementsAre(0));
  EXPECT_THAT(clock.complete(0), IsEmpty());  // 3 completed, the other 0
  EXPECT_EQ(clock.completed(0), 3U);
  EXPECT_THAT(clock.complete(1), ElementsAre(0, 1));
}

TEST(StaleClock, AfterTheLastStepAllWaitForAll) {
  StaleClock clock(2, 100, 2);
  EXPECT_THAT(clock.complete(0), ElementsAre(0));
  EXPECT_THAT(clock.complete(0), IsEmpty());
  EXPECT_THAT(clock.complete(1), ElementsAre(1));
  EXPECT_THAT(clock.complete(1), ElementsAre(0, 1));
}

TEST(StaleClock, OneReplicaNeverWaits) {
  StaleClock clock(1, 0, 3);
  for (int step = 0; step < 3; ++step) EXPECT_THAT(clock.complete(0), ElementsAre(0));
  EXPECT_THROW(static_cast<void>(clock.complete(0)), InternalError) << "there is no fourth step";
}

TEST(StaleClock, AReplicaThatWaitsMakesNoStep) {
  StaleClock clock(2, 0, 3);
  EXPECT_THAT(clock.complete(0), IsEmpty());
  EXPECT_THROW(static_cast<void>(clock.complete(0)), InternalError);
}

class RandomStaleClock : public ultra::test::RandomTest {};

/// Replicas in any order: whoever is let go keeps the bound, and somebody always is.
TEST_F(RandomStaleClock, KeepsTheBoundAndNeverStops) {
  for (int round = 0; round < 200; ++round) {
    const std::size_t replicas = random.between(1, 6);
    const std::size_t staleness = random.between(0, 4);
    const std::size_t steps = random.between(1, 12);
    SCOPED_TRACE(fmt::format("{} replicas, staleness {}, {} steps", replicas, staleness, steps));
    StaleClock clock(static_cast<int>(replicas), staleness, steps);
    std::vector<int> running;
    for (std::size_t r = 0; r < replicas; ++r) running.push_back(static_cast<int>(r));
    std::size_t made = 0;
    while (!running.empty()) {
      const auto next =
          running.begin() + static_cast<std::ptrdiff_t>(random.between(0, running.size() - 1));
      const int replica = *next;
      running.erase(next);
      ++made;
      for (const int released : clock.complete(replica)) {
        const std::size_t own = clock.completed(released);
        if (own == steps) {
          EXPECT_EQ(clock.slowest(), steps);
          continue;
        }
        EXPECT_LE(own, clock.slowest() + staleness);
        running.push_back(released);
      }
    }
    EXPECT_EQ(made, replicas * steps);
  }
}

}  // namespace
}  // namespace ultra::data_parallel
