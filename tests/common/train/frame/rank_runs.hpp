#pragma once
/// @file
/// Quiet training runs on several ranks, threads or processes.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "common/comm/run_ranks.hpp"
#include "tests/support/plain_training.hpp"
#include "tests/support/short_run.hpp"

namespace ultra::train::test {

/// @brief Trains on the ranks of `world`, with what a test puts into this rank's steps.
inline TrainResult train_replicated(const TrainOptions& options, const Communicator& world,
                                    const ultra::test::Put& put = {}) {
  return train_with(
      ultra::test::setup_of(options, world.size(),
                            list_of(ultra::test::plain_training(), ultra::test::putting(put))),
      world);
}

/// @brief A world of this rank alone, in which it can train by itself.
inline Communicator alone(const Communicator& world) {
  return world.split(world.rank(), 0, "alone");
}

/// @brief Calls `fn` and keeps what it prints to itself, unless a check in it has failed.
inline std::string quietly(const std::function<void()>& fn) {
  const std::string printed = ultra::test::printed_by(fn);
  if (::testing::Test::HasFailure()) std::fputs(printed.c_str(), stdout);
  return printed;
}

/// @brief Expects the same numbers on all ranks, bit for bit. Collective.
inline void expect_same_on_all(const Communicator& world, const std::vector<double>& values) {
  const Tensor first = Tensor::from<double>(Device::cpu(), {values.size()}, values).clone();
  world.broadcast(first, 0);
  EXPECT_EQ(first.to_vector(), values) << "rank " << world.rank() << " against rank 0";
}

}  // namespace ultra::train::test
