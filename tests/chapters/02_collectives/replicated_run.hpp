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
inline RankRun run_replicated(const Communicator& world, const train::TrainOptions& options) {
  return run_of(setup_of(options, world.size(), train::list_of(memory::technique(), technique())),
                world);
}

/// @brief Chapter 01's training, by this rank alone.
/// @param flags  of chapter 01, separated by spaces.
inline RankRun run_alone(const Communicator& world, const train::TrainOptions& options,
                         const std::string& flags = "") {
  return run_of(setup_of(options, 1, of_one_rank(), flags), alone(world));
}

}  // namespace ultra::collectives::test
