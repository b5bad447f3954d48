#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"

#include "chapters/03_data_parallel/parameter_server/parameter_server.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

TEST(ServerLayout, CutsLargeParametersEvenly) {
  EXPECT_THAT(slice_parameters(std::vector<std::size_t>{101}, 100, 1),
              ElementsAre(Slice{.parameter = 0, .elements = {0, 51}, .server = 0},
                          Slice{.parameter = 0, .elements = {51, 101}, .server = 0}));
  EXPECT_THAT(slice_parameters(std::vector<std::size_t>{5, 2}, 2, 1),
              ElementsAre(Slice{.parameter = 0, .elements = {0, 2}, .server = 0},
                          Slice{.parameter = 0, .elements = {2, 4}, .server = 0},
                          Slice{.parameter = 0, .elements = {4, 5}, .server = 0},
                          Slice{.parameter = 1, .elements = {0, 2}, .server = 0}));
}

TEST(ServerLayout, ASliceIsAPartOfTheFlattenedParameter) {
  const Tensor parameter = Tensor::zeros(Device::cpu(), {3, 4}, DType::kF32);
  const Tensor part = elements_of({.parameter = 0, .elements = {3, 9}, .server = 0}, parameter);
  EXPECT_EQ(part.shape(), Shape{6});
  EXPECT_TRUE(part.shares_storage(parameter));
  part.fill(1.0);
  EXPECT_THAT(parameter.to_vector(), ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0));
}

class RandomServerLayout : public test::RandomTest {};

TEST_F(RandomServerLayout, HoldsEachElementOnceAndInEvenLoads) {
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> counts(random.between(0, 20));
    for (std::size_t& count : counts) count = random.between(1, 200);
    const std::size_t capacity = random.pick<std::size_t>({0, 1, 7, 64, 200, 10000});
    const int servers = static_cast<int>(random.between(1, 6));
    SCOPED_TRACE(
        fmt::format("{} parameters, capacity {}, {} servers", counts.size(), capacity, servers));
    const std::vector<Slice> slices = slice_parameters(counts, capacity, servers);

    std::size_t parameter = 0;
    std::size_t next = 0;  // the element that the next slice begins with
    std::size_t largest = 0;
    std::vector<std::size_t> load(static_cast<std::size_t>(servers), 0);
    for (const Slice& slice : slices) {
      if (parameter < counts.size() && next == counts[parameter]) {
        ++parameter;
        next = 0;
      }
      ASSERT_EQ(slice.parameter, parameter);
      ASSERT_EQ(slice.elements.begin, next);
      ASSERT_GT(slice.elements.size(), 0U);
      ASSERT_LE(slice.elements.size(), capacity == 0 ? counts[parameter] : capacity);
      next = slice.elements.end;
      largest = std::max(largest, slice.elements.size());
      load.at(static_cast<std::size_t>(slice.server)) += slice.elements.size();
    }
    if (!counts.empty()) {
      EXPECT_EQ(parameter, counts.size() - 1);
      EXPECT_EQ(next, counts.back());
    }
    const auto [least, most] = std::ranges::minmax_element(load);
    EXPECT_LE(*most - *least, largest);

    std::vector<std::size_t> all;
    for (int server = 0; server < servers; ++server) {
      const std::vector<std::size_t> own = slices_of_server(slices, server);
      EXPECT_TRUE(std::ranges::is_sorted(own));
      all.insert(all.end(), own.begin(), own.end());
    }
    std::ranges::sort(all);
    std::vector<std::size_t> numbers(slices.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    EXPECT_EQ(all, numbers);
  }
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

class RandomStaleClock : public test::RandomTest {};

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
