#pragma once
/// @file
/// Rounds of training: a few steps on some ranks, timed.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::bench {

/// Steps of a round; the first warms up.
inline constexpr std::size_t kStepsOfRound = 5;

/// @brief What a round gave.
struct Round {
  double step_seconds = 0;  ///< of the median step
  double exposed = 0;  ///< share of the steps that the rank waited: for messages and for others
};

/// @brief Times the steps of a rank. Collective over world.
[[nodiscard]] inline Round time_steps(const Communicator& world, TrainingRank& rank) {
  std::vector<double> seconds;
  double waited = 0;
  double total = 0;
  for (std::size_t step = 0; step < kStepsOfRound; ++step) {
    world.barrier().wait();
    const double before = world.stats().exposed_seconds;
    const double start = now();
    benchmark::DoNotOptimize(rank.step());
    if (step == 0) continue;
    seconds.push_back(now() - start);
    total += seconds.back();
    waited += world.stats().exposed_seconds - before;
  }
  return {.step_seconds = median(seconds), .exposed = waited / total};
}

/// @brief A round on thread ranks, each of which trains what `time` makes.
/// @return what rank 0 measured.
[[nodiscard]] inline Round round_on(int ranks, const RankOptions& options,
                                    const std::function<Round(const Communicator&)>& time) {
  Round round;
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const Round own = time(world);
        if (world.rank() == 0) round = own;
      },
      options);
  return round;
}

/// @brief Rounds of a benchmark beside rounds of another way to make the same steps.
struct Comparison {
  double speed = 0;         ///< of the other's steps over these: more than 1 is faster
  double exposed = 0;       ///< share of the steps
  double step_seconds = 0;  ///< of the median step
};

/// @brief Runs the state's iterations, each of which measures the other, these, and the other again,
/// because shared machines change their speed from second to second. Medians over the iterations.
[[nodiscard]] inline Comparison compare(benchmark::State& state,
                                        const std::function<Round()>& other,
                                        const std::function<Round()>& these) {
  std::vector<double> speeds;
  std::vector<double> exposed;
  std::vector<double> seconds;
  for (auto _ : state) {
    const Round before = other();
    const Round round = these();
    const Round after = other();
    speeds.push_back((before.step_seconds + after.step_seconds) / 2 / round.step_seconds);
    exposed.push_back(round.exposed);
    seconds.push_back(round.step_seconds);
  }
  return {.speed = median(speeds), .exposed = median(exposed), .step_seconds = median(seconds)};
}

/// @brief Runs the state's iterations alone: "step_ms" and "exposed", medians.
inline void report_steps(benchmark::State& state, const std::function<Round()>& round_of) {
  std::vector<double> seconds;
  std::vector<double> exposed;
  for (auto _ : state) {
    const Round round = round_of();
    seconds.push_back(round.step_seconds * 1e3);
    exposed.push_back(round.exposed);
  }
  state.counters["step_ms"] = median(seconds);
  state.counters["exposed"] = median(exposed);
}

}  // namespace ultra::bench
