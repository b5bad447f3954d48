// What offloaded states cost in time, on the default benchmark model with ZeRO-3: tokens per second
// over those of states on the device, in one run, and the part of reads and writes that the ranks
// waited for.
//
// Each round measures states on the device, offloaded ones, and states on the device again, because
// these machines are noisy.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/04_zero/zero.hpp"
#include "common/comm/run_ranks.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;
using zero::Offload;

constexpr std::size_t kSequencesPerRank = 4;
constexpr std::size_t kSteps = 5;  // of a round; the first warms up

/// Bytes and seconds of storage, of all ranks together.
struct Moved {
  double seconds = 0;  // of reads and writes
  double exposed = 0;
  double bytes = 0;

  void add(const train::StorageTraffic& after, const train::StorageTraffic& before) {
    seconds +=
        after.read_seconds - before.read_seconds + after.write_seconds - before.write_seconds;
    exposed += after.exposed_seconds - before.exposed_seconds;
    bytes += static_cast<double>(after.read_bytes - before.read_bytes + after.written_bytes -
                                 before.written_bytes);
  }
};

/// What a round gave on rank 0.
struct Round {
  double step_seconds = 0;
  Moved optimizer;
  Moved weights;
};

RankOptions in_rank_order() {
  collectives::BookOptions names;
  names.names = {{OpKind::kAllReduce, "pairwise"}, {OpKind::kReduceScatter, "pairwise"}};
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>(names);
  return options;
}

Round round_on(const Communicator& dp, const train::TrainOptions& options,
               const data::Dataset& text, const zero::OffloadSettings& offload) {
  zero::ZeroSettings settings{.stage = zero::ZeroStage::kParameters};
  settings.offload = offload;
  train::StepConfig step_config;
  step_config.values = nn::Values::kDeferred;
  step_config.states.claim("--zero", zero::sharded_states(settings, {}));
  bench::TrainingRank rank(dp, options, text, step_config);
  const auto states = dynamic_cast<zero::ShardedModel&>(*rank.state().states.front()).offloaded();
  std::vector<double> seconds;
  train::OffloadUse before;
  for (std::size_t step = 0; step < kSteps; ++step) {
    dp.barrier().wait();
    const double start = now();
    benchmark::DoNotOptimize(rank.step());
    if (step > 0) seconds.push_back(now() - start);
    if (step == 0 && states) before = states->use();
  }
  Round round;
  round.step_seconds = median(seconds);
  if (!states) return round;
  states->settle();
  round.optimizer.add(states->use().optimizer, before.optimizer);
  round.weights.add(states->use().weights, before.weights);
  return round;
}

Round round_of(int ranks, const nn::ModelConfig& config, const data::Dataset& text,
               const zero::OffloadSettings& offload) {
  const train::TrainOptions options = bench::benchmark_options(config, kSequencesPerRank, ranks);
  Round round;
  run_ranks(
      ranks,
      [&](Communicator& dp) {
        const Round own = round_on(dp, options, text, offload);
        if (dp.rank() == 0) round = own;
      },
      in_rank_order());
  return round;
}

void count(benchmark::State& state, const zero::OffloadSettings& offload) {
  const nn::ModelConfig config = bench::benchmark_model(384);
  const int ranks = static_cast<int>(state.range(0));
  const data::Dataset text = bench::benchmark_text();
  std::vector<double> ratios;
  std::vector<double> optimizer;
  std::vector<double> weights;
  std::vector<double> gbps;
  for (auto _ : state) {
    const Round first = round_of(ranks, config, text, {});
    const Round moved = round_of(ranks, config, text, offload);
    const Round last = round_of(ranks, config, text, {});
    ratios.push_back((first.step_seconds + last.step_seconds) / 2 / moved.step_seconds);
    optimizer.push_back(moved.optimizer.exposed / moved.optimizer.seconds);
    gbps.push_back(moved.optimizer.bytes / moved.optimizer.seconds / 1e9);
    if (moved.weights.seconds > 0) weights.push_back(moved.weights.exposed / moved.weights.seconds);
  }
  state.counters["speed_over_device"] = median(ratios);
  state.counters["exposed_optimizer"] = median(optimizer);
  state.counters["GB_per_s"] = median(gbps);
  if (!weights.empty()) state.counters["exposed_weights"] = median(weights);
}

zero::OffloadSettings to_file(Offload what, double gbps = 0) {
  zero::OffloadSettings settings;
  settings.what = what;
  settings.folder = std::filesystem::temp_directory_path().string();
  if (gbps > 0) settings.gigabytes_per_second = gbps;
  return settings;
}

void moments_to_file(benchmark::State& state) { count(state, to_file(Offload::kOptimizer)); }
void moments_to_memory(benchmark::State& state) {
  zero::OffloadSettings settings;
  settings.what = Offload::kOptimizer;
  count(state, settings);
}
void moments_to_file_at_2_gbps(benchmark::State& state) {
  count(state, to_file(Offload::kOptimizer, 2));
}
void moments_and_weights_to_file(benchmark::State& state) {
  count(state, to_file(Offload::kOptimizerAndParameters));
}
BENCHMARK(moments_to_file)->ArgName("dp")->Arg(1)->Arg(2)->Unit(benchmark::kSecond)->Iterations(3);
BENCHMARK(moments_to_memory)
    ->ArgName("dp")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kSecond)
    ->Iterations(3);
BENCHMARK(moments_to_file_at_2_gbps)
    ->ArgName("dp")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kSecond)
    ->Iterations(3);
BENCHMARK(moments_and_weights_to_file)
    ->ArgName("dp")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kSecond)
    ->Iterations(3);

}  // namespace

BENCHMARK_MAIN();
