#pragma once
/// @file
/// Trainings with the techniques of all chapters and with a test's own, compared with one rank's.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::composition {

using test::RankRun;

/// @brief Makes a test's own technique.
using Extra = std::function<std::unique_ptr<train::Technique>()>;

/// @brief Trains with the chapters' techniques and the test's own; what rank 0 had in the end.
/// @param change  of the setup, beside the flags; may be empty.
[[nodiscard]] inline RankRun outcome_of(const std::string& flags,
                                        const std::vector<Extra>& extras = {},
                                        const std::function<void(train::Setup&)>& change = {}) {
  const auto make_setup = [&] {
    train::Techniques list =
        train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                       zero::technique(), zero::offload(), tensor_parallel::technique());
    for (const Extra& extra : extras) list.push_back(extra());
    train::Setup setup = train::parse_setup(std::move(list), test::words_of(flags));
    if (change) change(setup);
    return setup;
  };
  const train::Setup setup = make_setup();
  RankRun outcome;
  run_ranks(
      setup.comm.world_size(),
      [&](Communicator& world) {
        RankRun run = test::run_of(make_setup(), world);
        if (world.rank() == 0) outcome = std::move(run);
      },
      setup.rank_options());
  return outcome;
}

/// @brief Losses, norms and weights are those of one rank, and every weight would be written once.
inline void expect_same(const RankRun& found, const RankRun& one, double tolerance) {
  test::expect_near_losses(found, one, tolerance);
  test::expect_near_norms(found, one, 100 * tolerance);
  test::expect_near_weights(found, one, 100 * tolerance);
  test::expect_saved_once(found);
}

}  // namespace ultra::composition
