// What ZeRO costs in time: tokens per second of each stage over those of plain data parallelism on
// the same ranks, in one run, with one BLAS thread per rank.
//
// Each round measures plain, the stage, and plain again, because these machines are noisy.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/04_zero/zero.hpp"
#include "common/comm/run_ranks.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;

constexpr std::size_t kSequencesPerRank = 4;
constexpr std::size_t kSteps = 5;                 // of a round; the first warms up
constexpr std::size_t kBucketElements = 500'000;  // 2 MB

/// What a round gave: seconds of the median step, and the share of the steps that rank 0 waited.
struct Round {
  double step_seconds = 0;
  double exposed = 0;
};

RankOptions in_rank_order() {
  collectives::BookOptions names;
  names.names = {{OpKind::kAllReduce, "pairwise"}, {OpKind::kReduceScatter, "pairwise"}};
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>(names);
  return options;
}

/// Times the steps of a rank.
Round time_steps(const Communicator& dp, bench::TrainingRank& rank) {
  std::vector<double> seconds;
  double waited = 0;
  double total = 0;
  for (std::size_t number = 0; number < kSteps; ++number) {
    dp.barrier();
    const double before = dp.stats().exposed_seconds;
    const double start = now();
    benchmark::DoNotOptimize(rank.step());
    if (number == 0) continue;
    seconds.push_back(now() - start);
    total += seconds.back();
    waited += dp.stats().exposed_seconds - before;
  }
  return {.step_seconds = median(seconds), .exposed = waited / total};
}

train::Ingredients ingredients_of(zero::ZeroStage stage) {
  train::Ingredients ingredients;
  if (stage == zero::ZeroStage::kNone) {
    ingredients.exchange.offer([](const train::StatesScope& scope) {
      return data_parallel::sum_in_buckets(scope.parameters, kBucketElements,
                                           data_parallel::Flush::kWhenReady,
                                           data_parallel::all_reduce_exchange(scope.data));
    });
    return ingredients;
  }
  ingredients.values = nn::Values::kDeferred;
  ingredients.states.claim(
      "--zero", zero::sharded_states({.stage = stage, .bucket_capacity = kBucketElements}, {}));
  return ingredients;
}

Round round_of(int ranks, const nn::ModelConfig& config, const data::Dataset& text,
               zero::ZeroStage stage) {
  const train::TrainOptions options = bench::benchmark_options(config, kSequencesPerRank, ranks);
  Round round;
  run_ranks(
      ranks,
      [&](Communicator& dp) {
        bench::TrainingRank rank(dp, options, text, ingredients_of(stage));
        const Round own = time_steps(dp, rank);
        if (dp.rank() == 0) round = own;
      },
      in_rank_order());
  return round;
}

void stage_against_plain(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  const auto stage = zero::kZeroStages.at(static_cast<std::size_t>(state.range(1)));
  const int ranks = static_cast<int>(state.range(2));
  const data::Dataset text = bench::benchmark_text();
  std::vector<double> ratios;
  std::vector<double> exposed;
  for (auto _ : state) {
    const Round before = round_of(ranks, config, text, zero::ZeroStage::kNone);
    const Round sharded = round_of(ranks, config, text, stage);
    const Round after = round_of(ranks, config, text, zero::ZeroStage::kNone);
    ratios.push_back((before.step_seconds + after.step_seconds) / 2 / sharded.step_seconds);
    exposed.push_back(sharded.exposed);
  }
  state.counters["speed_over_plain"] = median(ratios);
  state.counters["exposed"] = median(exposed);
}
BENCHMARK(stage_against_plain)
    ->ArgNames({"hidden", "zero", "dp"})
    ->Args({384, 1, 2})
    ->Args({384, 2, 2})
    ->Args({384, 3, 2})
    ->Unit(benchmark::kSecond)
    ->Iterations(3);

}  // namespace

BENCHMARK_MAIN();
