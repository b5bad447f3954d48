#include "chapters/03_data_parallel/parameter_server/straggler.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "common/comm/run_ranks.hpp"

namespace ultra::data_parallel {
namespace {

TEST(StragglerRanks, OneReplicaTakesLonger) {
  const Straggler straggler{.replica = 1, .delay = std::chrono::milliseconds(30)};
  run_ranks(3, [&](Communicator& world) {
    const auto observer = make_straggler(straggler, world);
    const auto begin = std::chrono::steady_clock::now();
    for (const std::size_t step : {1U, 2U}) {
      observer->step_begins({.step = step, .learning_rate = 0.1});
      observer->step_ends({.step = step, .learning_rate = 0.1});
    }
    const auto taken = std::chrono::steady_clock::now() - begin;
    if (world.rank() == straggler.replica) {
      EXPECT_GE(taken, 2 * straggler.delay);
    }
  });
}

}  // namespace
}  // namespace ultra::data_parallel
