#pragma once
/// @file
/// Random trainings of which closed forms say what they take and send.

#include <vector>

#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/11_five_d/composition/draw.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::five_d::test {

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

/// @brief Random trainings, and what their ranks took.
class PredictedRuns : public ultra::test::RandomTest {
 protected:
  /// Processes take longer to start.
  static int trials() { return launched_world_size() ? 3 : 40; }

  /// A training without what rounds, moves states off the device, or updates within a step.
  Configuration draw() {
    const auto processes = launched_world_size();
    while (true) {
      Configuration one =
          draw_configuration(random, processes ? static_cast<std::size_t>(*processes) : 12);
      one = one.with("--steps", "1");
      one.goes_on = GoesOn::kNowhere;
      const bool other = !one.value_of("--offload").empty() || !one.value_of("--zero++").empty() ||
                         !one.is_exact() || one.value_of("--stage-split") == "measured" ||
                         one.value_of("--schedule") == "search";
      if (!other && refusal_of(one).empty()) return one;
    }
  }
};

}  // namespace ultra::five_d::test
