#pragma once
/// @file
/// Quiet runs of replicated training, as the program makes them, and those of one rank, with their
/// final weights.

#include <string>

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::collectives::test {

using namespace ultra::test;

/// @brief The techniques of chapter 01's program: no communication in its passes.
inline train::Techniques of_one_rank() { return train::list_of(memory::technique()); }

/// @brief Replicated training on the ranks of `world`.
inline ultra::test::RankRun run_replicated(const Communicator& world,
                                           const train::TrainOptions& options) {
  return ultra::test::run_of(
      ultra::test::setup_of(options, world.size(),
                            train::list_of(memory::technique(), technique())),
      world);
}

/// @brief Chapter 01's training, by this rank alone.
/// @param flags  of chapter 01, separated by spaces.
inline ultra::test::RankRun run_alone(const Communicator& world, const train::TrainOptions& options,
                                      const std::string& flags = "") {
  return ultra::test::run_of(ultra::test::setup_of(options, 1, of_one_rank(), flags),
                             ultra::test::alone(world));
}

}  // namespace ultra::collectives::test
