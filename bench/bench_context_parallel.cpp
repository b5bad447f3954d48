// What context parallelism gains and costs: tokens per second of cp ranks over those of one, on the
// same sequences, by each method and layout; and on a slowed link, how much of a step the ring leaves
// waiting, beside methods that wait for all they send. One BLAS thread per rank.
//
// Each round measures one rank, cp ranks, and one rank again, because these machines are noisy.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "bench/training_round.hpp"
#include "chapters/04_zero/options/zero_options.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel_factory.hpp"
#include "chapters/06_context_parallel/sequence_chunks.hpp"

namespace {

using namespace ultra;
using bench::Round;
using context_parallel::ContextLayout;
using context_parallel::ContextMethod;
using context_parallel::MethodChoice;
using context_parallel::SequenceLayout;

constexpr std::size_t kSequences = 1;
constexpr std::size_t kTokens = 2048;

/// How sequences are split, or that they are not.
struct Split {
  MethodChoice choice = {};
  SequenceLayout layout = SequenceLayout::kZigzag;
  std::string link = {};  // empty: as fast as it goes
};

/// Gives a rank its tokens, and its layers to the factories.
bench::ChangeLayers layers_of(const Split& split, std::size_t seq_len) {
  if (split.choice.cp == 1) return {};
  return [=](train::Plan& plan, train::FactoryStack& factories) {
    const ContextLayout layout{.cp = split.choice.cp, .sequence = split.layout, .seq_len = seq_len};
    context_parallel::deal_out(plan, layout, plan.mesh.along(context_parallel::kAxis).rank());
    factories.push_back(std::make_unique<context_parallel::ContextParallelFactory>(
        *factories.back(),
        context_parallel::ContextGroups(plan.mesh.along(context_parallel::kAxis), layout,
                                        split.choice),
        nullptr));
  };
}

Round round_of(const Split& split, const nn::ModelConfig& config, const data::Dataset& text) {
  RankOptions options;
  options.algorithms = zero::ZeroOptions().algorithms({});
  if (!split.link.empty()) options.link = LinkSpeed::parse(split.link);
  const train::TrainOptions train = bench::benchmark_options(config, kSequences, 1);
  return bench::round_on(split.choice.cp, options, [&](const Communicator& world) {
    bench::TrainingRank rank(
        world, train, text, train::StepConfig(),
        MeshShape({context_parallel::axis_of(static_cast<std::size_t>(split.choice.cp))}),
        layers_of(split, config.max_seq_len));
    return bench::time_steps(world, rank);
  });
}

nn::ModelConfig model_of(const benchmark::State& state) {
  nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  config.max_seq_len = kTokens;
  return config;
}

Split split_of(const benchmark::State& state) {
  const auto cp = static_cast<int>(state.range(1));
  const auto method = static_cast<ContextMethod>(state.range(2));
  return {
      .choice = {.method = method, .cp = cp, .ulysses = method == ContextMethod::kUlysses ? cp : 1},
      .layout = static_cast<SequenceLayout>(state.range(3))};
}

void ranks_against_one(benchmark::State& state) {
  const nn::ModelConfig config = model_of(state);
  const Split split = split_of(state);
  const data::Dataset text = bench::benchmark_text();
  const bench::Comparison found = bench::compare(
      state, [&] { return round_of({}, config, text); },
      [&] { return round_of(split, config, text); });
  state.counters["speed_over_one_rank"] = found.speed;
  state.counters["efficiency"] = found.speed / split.choice.cp;
  state.counters["exposed"] = found.exposed;
}
BENCHMARK(ranks_against_one)
    ->ArgNames({"hidden", "cp", "method", "zigzag"})
    ->ArgsProduct({{256}, {2}, {0, 1, 2}, {0, 1}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

/// On a link on which a step's transfers take about as long as its blocks.
void on_a_slow_link(benchmark::State& state) {
  const nn::ModelConfig config = model_of(state);
  Split split = split_of(state);
  split.link = "latency-us=20,gbps=1";
  const data::Dataset text = bench::benchmark_text();
  bench::report_steps(state, [&] { return round_of(split, config, text); });
}
BENCHMARK(on_a_slow_link)
    ->ArgNames({"hidden", "cp", "method", "zigzag"})
    ->ArgsProduct({{256}, {2}, {0, 1, 2}, {1}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
