#pragma once
/// @file
/// Quiet runs of replicated training, as the program makes them, with their final weights.

#include <string>

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "tests/common/train/frame/rank_runs.hpp"

namespace ultra::collectives::test {

using ultra::test::RankRun;

/// @brief Replicated training on the ranks of `world`.
inline RankRun run_replicated(const Communicator& world, const train::TrainOptions& options) {
  return ultra::test::run_of(
      ultra::test::setup_of(options, world.size(),
                            train::list_of(memory::technique(), technique())),
      world);
}

/// @brief Chapter 01's training, by this rank alone: no communication in its passes.
/// @param flags  of chapter 01, separated by spaces.
inline RankRun run_alone(const Communicator& world, const train::TrainOptions& options,
                         const std::string& flags = "") {
  return ultra::test::run_of(
      ultra::test::setup_of(options, 1, train::list_of(memory::technique()), flags),
      train::test::alone(world));
}

}  // namespace ultra::collectives::test
