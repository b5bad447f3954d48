// What pipeline parallelism gains and costs: tokens per second of pp ranks over those of one, on
// the same sequences, by schedule; and on a slowed link, how much of a step the stages wait. One
// BLAS thread per rank.
//
// Each round measures one rank, pp ranks, and one rank again, because these machines are noisy.

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
#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"
#include "chapters/07_pipeline_parallel/execution/pipeline_links.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"

namespace {

using namespace ultra;
using bench::Round;
using pipeline_parallel::PipelineSchedule;
using pipeline_parallel::ScheduleChoice;
using pipeline_parallel::ScheduleKind;

/// How layers are cut, or that they are not.
struct Cut {
  int pp = 1;
  ScheduleChoice choice = {};
  std::size_t micro_batches = 8;
  std::string link = {};  // empty: as fast as it goes

  [[nodiscard]] PipelineSchedule schedule() const {
    return pipeline_parallel::make_schedule(choice, static_cast<std::size_t>(pp), micro_batches);
  }
};

/// Gives a rank its layers and its passes.
bench::ChangeLayers layers_of(const Cut& cut, const nn::ModelConfig& model) {
  if (cut.pp == 1) return {};
  return [=](train::Plan& plan, train::FactoryStack&) {
    const PipelineSchedule schedule = cut.schedule();
    const auto stage = static_cast<std::size_t>(plan.mesh.along(pipeline_parallel::kAxis).rank());
    const std::vector<nn::StageSpec> parts =
        pipeline_parallel::parts_of_model(pipeline_parallel::balanced_layers(
            model.num_layers, schedule.placement, pipeline_parallel::operations_of(model)));
    plan.schedule = schedule.ranks[stage];
    plan.chunks.clear();
    for (std::size_t chunk = 0; chunk < schedule.placement.chunks(); ++chunk) {
      plan.chunks.push_back(parts[schedule.placement.part_at({.stage = stage, .chunk = chunk})]);
    }
  };
}

train::StepConfig links_of(const Cut& cut) {
  train::StepConfig step_config;
  if (cut.pp == 1) return step_config;
  step_config.links.claim("the benchmark", [cut](const train::ModelScope& scope) {
    return std::make_unique<pipeline_parallel::PipelineLinks>(
        scope.plan.mesh.along(pipeline_parallel::kAxis), cut.schedule(),
        pipeline_parallel::border_tensors(scope.plan, scope.context.device, scope.context.options,
                                          1),
        std::make_shared<pipeline_parallel::ActionLog>());
  });
  return step_config;
}

/// What the average rank waits: the stages of a pipeline wait at different times.
double mean_over(const Communicator& world, double share) {
  const Tensor sum = Tensor::from<double>(Device::cpu(), {1}, std::vector{share});
  world.all_reduce(sum).wait();
  return sum.to_vector().front() / world.size();
}

Round round_of(const Cut& cut, const nn::ModelConfig& model, const data::Dataset& text) {
  RankOptions options;
  options.algorithms = zero::ZeroOptions().algorithms({});
  if (!cut.link.empty()) options.link = LinkSpeed::parse(cut.link);
  train::TrainOptions train = bench::benchmark_options(model, 1, 1);
  train.global_batch = cut.micro_batches;
  return bench::round_on(cut.pp, options, [&](const Communicator& world) {
    bench::TrainingRank rank(
        world, train, text, links_of(cut),
        MeshShape({pipeline_parallel::axis_of(static_cast<std::size_t>(cut.pp))}),
        layers_of(cut, model));
    Round round = bench::time_steps(world, rank);
    round.exposed = mean_over(world, round.exposed);
    return round;
  });
}

nn::ModelConfig model_of(const benchmark::State& state) {
  nn::ModelConfig model = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  model.num_layers = 8;
  return model;
}

Cut cut_of(const benchmark::State& state) {
  return {.pp = static_cast<int>(state.range(1)),
          .choice = {.kind = static_cast<ScheduleKind>(state.range(2))},
          .micro_batches = static_cast<std::size_t>(state.range(3))};
}

void ranks_against_one(benchmark::State& state) {
  const nn::ModelConfig model = model_of(state);
  const Cut cut = cut_of(state);
  const data::Dataset text = bench::benchmark_text();
  const bench::Comparison found = bench::compare(
      state, [&] { return round_of({.micro_batches = cut.micro_batches}, model, text); },
      [&] { return round_of(cut, model, text); });
  const double bubble = pipeline_parallel::bubble_over_ideal(
      cut.choice, {.stages = static_cast<std::size_t>(cut.pp), .micro_batches = cut.micro_batches},
      {});
  state.SetLabel(cut.choice.str());
  state.counters["speed_over_one_rank"] = found.speed;
  state.counters["efficiency"] = found.speed / cut.pp;
  state.counters["efficiency_of_closed_form"] = 1 / (1 + bubble);
  state.counters["exposed"] = found.exposed;
}
BENCHMARK(ranks_against_one)
    ->ArgNames({"hidden", "pp", "schedule", "micro_batches"})
    ->ArgsProduct(
        {{256},
         {2},
         {static_cast<int>(ScheduleKind::kNaive), static_cast<int>(ScheduleKind::kAfab),
          static_cast<int>(ScheduleKind::kOneFOneB), static_cast<int>(ScheduleKind::kInterleaved),
          static_cast<int>(ScheduleKind::kZeroBubbleH1), static_cast<int>(ScheduleKind::kZbV),
          static_cast<int>(ScheduleKind::kDualPipeV)},
         {4, 8}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

/// On a link on which an activation takes about a tenth of a pass.
void on_a_slow_link(benchmark::State& state) {
  const nn::ModelConfig model = model_of(state);
  Cut cut = cut_of(state);
  cut.link = "latency-us=50,gbps=4";
  const data::Dataset text = bench::benchmark_text();
  state.SetLabel(cut.choice.str());
  bench::report_steps(state, [&] { return round_of(cut, model, text); });
}
BENCHMARK(on_a_slow_link)
    ->ArgNames({"hidden", "pp", "schedule", "micro_batches"})
    ->ArgsProduct({{256},
                   {2},
                   {static_cast<int>(ScheduleKind::kNaive), static_cast<int>(ScheduleKind::kAfab),
                    static_cast<int>(ScheduleKind::kOneFOneB),
                    static_cast<int>(ScheduleKind::kInterleaved),
                    static_cast<int>(ScheduleKind::kZbV)},
                   {8}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
