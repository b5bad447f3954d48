// What tensor parallelism gains and costs: tokens per second of tp ranks over those of one, on the
// same batch; and on a slowed link, how much of a step is left waiting by each way to hide
// communication. One BLAS thread per rank.
//
// Each round measures one rank, tp ranks, and one rank again, because these machines are noisy.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "bench/training_round.hpp"
#include "chapters/04_zero/options/zero_options.hpp"
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::Round;
using tensor_parallel::SequenceParallel;
using tensor_parallel::TensorOverlap;

constexpr std::size_t kSequences = 4;

/// How a model is split, or that it is not.
struct Split {
  int tp = 1;
  SequenceParallel sequence_parallel = SequenceParallel::kOff;
  TensorOverlap overlap = TensorOverlap::kNone;
  std::string link;  // empty: as fast as it goes
};

/// Adds tp's groups to a rank's plan, and its layers to the factories.
bench::ChangeLayers layers_of(const Split& split, std::size_t num_kv_heads) {
  if (split.tp == 1) return {};
  return [=](train::Plan& plan, train::FactoryStack& factories) {
    tensor_parallel::add_tensor_groups(plan.groups, plan.mesh.along(tensor_parallel::kAxis),
                                       num_kv_heads);
    factories.push_back(std::make_unique<tensor_parallel::TensorParallelFactory>(
        *factories.back(), plan.mesh.along(tensor_parallel::kAxis), split.sequence_parallel,
        split.overlap));
  };
}

Round round_of(const Split& split, const nn::ModelConfig& config, const data::Dataset& text) {
  RankOptions options;
  options.algorithms = zero::ZeroOptions().algorithms({});
  if (!split.link.empty()) options.link = LinkSpeed::parse(split.link);
  const train::TrainOptions train = bench::benchmark_options(config, kSequences, 1);
  return bench::round_on(split.tp, options, [&](const Communicator& world) {
    train::StepConfig step_config;
    step_config.sum_partial.offer(tensor_parallel::sum_partial_gradients);
    bench::TrainingRank rank(
        world, train, text, step_config,
        MeshShape({tensor_parallel::axis_of(static_cast<std::size_t>(split.tp))}),
        layers_of(split, config.num_kv_heads));
    return bench::time_steps(world, rank);
  });
}

Split split_of(const benchmark::State& state) {
  return {.tp = static_cast<int>(state.range(1)),
          .sequence_parallel = static_cast<SequenceParallel>(state.range(2)),
          .overlap = static_cast<TensorOverlap>(state.range(3)),
          .link = {}};
}

void ranks_against_one(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  const Split split = split_of(state);
  const data::Dataset text = bench::benchmark_text();
  const bench::Comparison found = bench::compare(
      state, [&] { return round_of({}, config, text); },
      [&] { return round_of(split, config, text); });
  state.counters["speed_over_one_rank"] = found.speed;
  state.counters["efficiency"] = found.speed / split.tp;
  state.counters["exposed"] = found.exposed;
}
BENCHMARK(ranks_against_one)
    ->ArgNames({"hidden", "tp", "sp", "overlap"})
    ->ArgsProduct({{384}, {2}, {0}, {0, 1}})
    ->ArgsProduct({{384}, {2}, {1}, {0, 1, 2}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

/// On a link on which a step's transfers take about as long as its products.
void on_a_slow_link(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  Split split = split_of(state);
  split.link = "latency-us=20,gbps=4";
  Split waiting = split;
  waiting.overlap = TensorOverlap::kNone;
  const data::Dataset text = bench::benchmark_text();
  std::vector<double> speeds;
  std::vector<double> exposed;
  std::vector<double> exposed_waiting;
  for (auto _ : state) {
    const Round before = round_of(waiting, config, text);
    const Round hidden = round_of(split, config, text);
    const Round after = round_of(waiting, config, text);
    speeds.push_back((before.step_seconds + after.step_seconds) / 2 / hidden.step_seconds);
    exposed.push_back(hidden.exposed * hidden.step_seconds * 1e3);
    exposed_waiting.push_back(
        (before.exposed * before.step_seconds + after.exposed * after.step_seconds) / 2 * 1e3);
  }
  state.counters["speed_over_waiting"] = median(speeds);
  state.counters["exposed_ms"] = median(exposed);
  state.counters["exposed_ms_waiting"] = median(exposed_waiting);
}
BENCHMARK(on_a_slow_link)
    ->ArgNames({"hidden", "tp", "sp", "overlap"})
    ->ArgsProduct({{384}, {2}, {1}, {1, 2}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
