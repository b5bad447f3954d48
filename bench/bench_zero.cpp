// What ZeRO costs in time: tokens per second of each stage over those of plain data parallelism on
// the same ranks, in one run, with one BLAS thread per rank.
//
// Each round measures plain, the stage, and plain again, because these machines are noisy.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "bench/training_round.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/04_zero/zero.hpp"

namespace {

using namespace ultra;
using bench::Round;

constexpr std::size_t kSequencesPerRank = 4;
constexpr std::size_t kBucketElements = 500'000;  // 2 MB

RankOptions in_rank_order() {
  collectives::BookOptions names;
  names.names = {{OpKind::kAllReduce, "pairwise"}, {OpKind::kReduceScatter, "pairwise"}};
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>(names);
  return options;
}

train::StepConfig step_config_of(zero::ZeroStage stage) {
  train::StepConfig step_config;
  if (stage == zero::ZeroStage::kNone) {
    step_config.exchange.offer([](const train::StatesScope& scope) {
      return data_parallel::sum_in_buckets(scope.parameters, kBucketElements,
                                           data_parallel::Flush::kWhenReady,
                                           data_parallel::all_reduce_exchange(scope.data));
    });
    return step_config;
  }
  step_config.values = nn::Values::kDeferred;
  step_config.states.claim(
      "--zero", zero::sharded_states({.stage = stage, .bucket_capacity = kBucketElements}, {}));
  return step_config;
}

Round round_of(int ranks, const nn::ModelConfig& config, const data::Dataset& text,
               zero::ZeroStage stage) {
  const train::TrainOptions options = bench::benchmark_options(config, kSequencesPerRank, ranks);
  return bench::round_on(ranks, in_rank_order(), [&](const Communicator& dp) {
    bench::TrainingRank rank(dp, options, text, step_config_of(stage));
    return bench::time_steps(dp, rank);
  });
}

void stage_against_plain(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  const auto stage = zero::kZeroStages.at(static_cast<std::size_t>(state.range(1)));
  const int ranks = static_cast<int>(state.range(2));
  const data::Dataset text = bench::benchmark_text();
  const bench::Comparison found = bench::compare(
      state, [&] { return round_of(ranks, config, text, zero::ZeroStage::kNone); },
      [&] { return round_of(ranks, config, text, stage); });
  state.counters["speed_over_plain"] = found.speed;
  state.counters["exposed"] = found.exposed;
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
