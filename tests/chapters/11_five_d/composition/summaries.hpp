#pragma once
/// @file
/// What the ranks of a random training kept and sent.

#include <vector>

#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// What every rank took in a training; nothing in a process without rank 0.
inline std::vector<train::RankSummary> summaries(const Configuration& configuration) {
  std::vector<train::RankSummary> ranks;
  const train::Setup setup = setup_of(configuration);
  RankOptions options = setup.rank_options();
  options.progress = Progress::kOnCall;  // memory is free as soon as a rank lets go of it
  static_cast<void>(ultra::test::quietly([&] {
    run_ranks(
        checked_cast<int>(configuration.ranks()),
        [&](Communicator& world) {
          const train::TrainResult result = train::train_with(setup_of(configuration), world);
          if (world.rank() == 0) ranks = result.ranks;
        },
        options);
  }));
  return ranks;
}

}  // namespace ultra::five_d::test
