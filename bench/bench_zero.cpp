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
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/04_zero/sharded_model.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "chapters/04_zero/zero_training.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/train/update.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;

constexpr std::size_t kSequencesPerRank = 4;
constexpr std::size_t kSteps = 5;                 // of a round; the first warms up
constexpr std::size_t kBucketElements = 500'000;  // 2 MB
constexpr double kLearningRate = 1e-4;

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

/// Times `step(number)` on a rank.
template <class Step>
Round time_steps(const Communicator& dp, Step&& step) {
  std::vector<double> seconds;
  double waited = 0;
  double total = 0;
  for (std::size_t number = 0; number < kSteps; ++number) {
    dp.barrier();
    const double before = dp.stats().exposed_seconds;
    const double start = now();
    step(number);
    if (number == 0) continue;
    seconds.push_back(now() - start);
    total += seconds.back();
    waited += dp.stats().exposed_seconds - before;
  }
  return {.step_seconds = median(seconds), .exposed = waited / total};
}

Round plain_round(const Communicator& dp, const nn::ModelConfig& config,
                  const data::Sampler& sampler) {
  nn::DenseFactory factory;
  nn::Model model(config, Device::cpu(), DType::kF32, 1, factory);
  const auto exchange = data_parallel::all_reduce_exchange(dp);
  const auto passes =
      data_parallel::data_parallel_forward_backward(dp, kSequencesPerRank, [&](nn::Model& made) {
        return data_parallel::sync_in_buckets(made, kBucketElements,
                                              data_parallel::Flush::kWhenReady, exchange);
      });
  const train::Update update = train::clipped_adamw(train::TrainOptions{});
  return time_steps(dp, [&](std::size_t step) {
    benchmark::DoNotOptimize(passes(model, sampler, step));
    update(model, {.step = step + 1, .learning_rate = kLearningRate});
    model.drop_grads();
  });
}

Round sharded_round(const Communicator& dp, const nn::ModelConfig& config,
                    const data::Sampler& sampler, zero::ZeroStage stage) {
  nn::DenseFactory factory;
  nn::Model model(config, Device::cpu(), DType::kF32, 1, factory, nn::StageSpec::whole(config),
                  nn::Values::kDeferred);
  const auto sharded = zero::shard_model(model, zero::make_shard_groups(dp, {}),
                                         {.stage = stage, .bucket_capacity = kBucketElements});
  optim::AdamW adamw(optim::AdamWConfig{});
  return time_steps(dp, [&](std::size_t step) {
    benchmark::DoNotOptimize(
        zero::pass_in_lockstep(model, sampler, step, kSequencesPerRank, dp, sharded->sync()));
    const std::vector<optim::TensorUpdate> own = sharded->own();
    zero::step_own_shard(
        own, sharded->whole(),
        {.learning_rate = kLearningRate, .norm = zero::sharded_norm(own, dp), .clip_norm = 1.0},
        adamw, dp);
    sharded->drop_gradients();
  });
}

Round round_of(int ranks, const nn::ModelConfig& config, const data::Dataset& text,
               zero::ZeroStage stage) {
  Round round;
  run_ranks(
      ranks,
      [&](Communicator& dp) {
        const data::Sampler sampler(text, config.max_seq_len,
                                    kSequencesPerRank * static_cast<std::size_t>(dp.size()), 1);
        const Round own = stage == zero::ZeroStage::kNone
                              ? plain_round(dp, config, sampler)
                              : sharded_round(dp, config, sampler, stage);
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
