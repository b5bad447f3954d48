/// Weak scaling of data parallelism: tokens per second of several replicas over as many times those of
/// one, each with one thread and the same share of the batch. Measured side by side, round by round,
/// because a shared machine's clock changes from second to second; the median over the rounds.
///
/// One replica trains without any communication. `exposed` is the share of a step in which a replica
/// waits: for messages, and for the others to come.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "bench/training_round.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"

namespace {

using namespace ultra;
using bench::Round;

constexpr std::size_t kSequencesPerReplica = 4;

Round train_round(int replicas, const nn::ModelConfig& config, const data::Dataset& text,
                  std::size_t bucket_elements) {
  collectives::BookOptions names;
  names.names = {{OpKind::kAllReduce, "pairwise"}};
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>(names);
  const train::TrainOptions train_options =
      bench::benchmark_options(config, kSequencesPerReplica, replicas);
  return bench::round_on(replicas, options, [&](const Communicator& dp) {
    train::StepConfig step_config;
    step_config.exchange.offer([&](const train::StatesScope& scope) {
      return data_parallel::sum_in_buckets(scope.parameters, bucket_elements,
                                           data_parallel::Flush::kWhenReady,
                                           data_parallel::all_reduce_exchange(scope.data));
    });
    bench::TrainingRank rank(dp, train_options, text, step_config);
    return bench::time_steps(dp, rank);
  });
}

void weak_scaling(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  const int replicas = static_cast<int>(state.range(1));
  const data::Dataset text = bench::benchmark_text();
  constexpr std::size_t kBucketElements = 500'000;  // 2 MB
  const bench::Comparison found = bench::compare(
      state, [&] { return train_round(1, config, text, kBucketElements); },
      [&] { return train_round(replicas, config, text, kBucketElements); });
  const double tokens = static_cast<double>(kSequencesPerReplica * config.max_seq_len);
  state.counters["efficiency"] = found.speed;
  state.counters["exposed"] = found.exposed;
  state.counters["tokens_per_s"] = replicas * tokens / found.step_seconds;
}
BENCHMARK(weak_scaling)
    ->ArgNames({"hidden", "dp"})
    ->Args({384, 2})
    ->Args({512, 2})
    ->Unit(benchmark::kSecond)
    ->Iterations(3);

}  // namespace

BENCHMARK_MAIN();
