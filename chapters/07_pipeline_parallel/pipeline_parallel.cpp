#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/07_pipeline_parallel/estimate/pipeline_estimate.hpp"
#include "chapters/07_pipeline_parallel/estimate/pipeline_table.hpp"
#include "chapters/07_pipeline_parallel/execution/pass_recorder.hpp"
#include "chapters/07_pipeline_parallel/execution/pipeline_links.hpp"
#include "chapters/07_pipeline_parallel/execution/weight_stash.hpp"
#include "chapters/07_pipeline_parallel/options/chosen_schedule.hpp"
#include "chapters/07_pipeline_parallel/options/what_composes.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"
#include "chapters/07_pipeline_parallel/split_factory.hpp"
#include "chapters/07_pipeline_parallel/stages/measured_costs.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Ranks that share the tokens between layers.
std::size_t parts_of_tokens(const train::Setup& setup) {
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  return tensor && tensor->options().layout().splits_sequences() ? tensor->options().tp : 1;
}

/// Stages that hold the token table: the two ends, when it is the output matrix too.
void add_tied_group(train::Plan& plan, const Placement& placement) {
  const auto stage = static_cast<std::size_t>(plan.mesh.coordinates().pp);
  const bool is_end =
      stage == placement.at(0).stage || stage == placement.at(placement.parts() - 1).stage;
  plan.groups.add(std::string(nn::kTiedGroup),
                  plan.mesh.pp().split(is_end ? 0 : 1, plan.mesh.pp().rank(), "both ends"));
}

/// Whether a stage makes gradients of weights later than those of its input.
bool splits_backward(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const train::StepSchedule& list) {
    return std::ranges::find(list, train::ActionKind::kBackwardInput, &train::Action::kind) !=
           list.end();
  });
}

/// The layers of each part, by whatever rule.
std::vector<std::size_t> layers_of_parts(const StageSplit& split, const Placement& placement,
                                         const train::Plan& plan,
                                         const train::TrainOptions& train) {
  if (split.rule == StageSplit::Rule::kGiven) return split.layers;
  const PieceCosts costs = split.rule == StageSplit::Rule::kMeasured ? measure_pieces(train, plan)
                                                                     : operations_of(train.model);
  return balanced_layers(train.model.num_layers, placement, costs);
}

}  // namespace

void PipelineParallel::add_flags(CLI::App& app, train::Setup&) {
  options_.add_to(app);
  train::when_given(app, "--micro-batch", [this] { options_.gives_micro_batch = true; });
}

void PipelineParallel::validate(train::Setup& setup) {
  options_.validate(setup.ranks_beside().first);
}

std::vector<train::Exclusion> PipelineParallel::exclusions(const train::Setup& setup) const {
  std::vector<train::Exclusion> all = options_.exclusions(setup.ranks_beside().first);
  const std::vector<train::Exclusion> of_schedule =
      schedule_exclusions(options_.schedule_name(), schedule_.get(), setup);
  all.insert(all.end(), of_schedule.begin(), of_schedule.end());
  return all;
}

void PipelineParallel::settle(train::Setup& setup) {
  const auto replicas = static_cast<std::size_t>(setup.replicas());
  options_.cut_batch(setup.train, replicas);
  if (!options_.has_schedule()) return;
  setup.train.model.validate();
  schedule_ = std::make_shared<const PipelineSchedule>(chosen_schedule(
      options_, setup.train.model, data_parallel::micro_batch_sizes(setup.train, replicas).size()));
}

void PipelineParallel::validate_training(const train::Setup& setup) const {
  if (!options_.has_schedule()) return;
  expect_split(options_.split, setup.train.model.num_layers, schedule_->placement);
  train::expect_kept(exclusions(setup));
}

std::vector<train::FileFlag> PipelineParallel::files() const {
  std::vector<train::FileFlag> named;
  if (!options_.gantt.empty()) {
    named.push_back({"--executed-gantt", options_.gantt, train::FileUse::kWritten});
  }
  if (!options_.schedule_file.empty()) {
    named.push_back({"--schedule-file", options_.schedule_file, train::FileUse::kRead});
  }
  return named;
}

train::ExtraConfig PipelineParallel::config(const train::Setup&) const {
  if (!schedule_) return options_.config();
  return train::joined({options_.config(), {{"micro_batches", schedule_->micro_batches}}});
}

std::optional<std::string> PipelineParallel::estimate(const train::Setup& setup) const {
  if (!options_.has_schedule()) return {};
  const std::size_t replicas = data_parallel::options_of(setup).dp.value_or(1);
  const std::size_t data_ranks = replicas * setup.ranks_along(MeshDim::kCp);
  const zero::ZeroOptions& zero = zero::zero_of(setup).options();
  zero.expect_nodes_of(checked_cast<int>(data_ranks));
  return pipeline_parallel::answer({.memory = memory::options_of(setup),
                                    .train = setup.train,
                                    .share = rank_share(setup),
                                    .sharding = zero.sharding(checked_cast<int>(data_ranks)),
                                    .replicas = replicas},
                                   options_);
}

std::optional<train::Axis> PipelineParallel::axis() const {
  return train::Axis{
      .dim = MeshDim::kPp, .size = options_.pp, .flag = fmt::format("--pp {}", options_.pp)};
}

// [region technique]
void PipelineParallel::change_plan(train::Plan& plan, const train::Setup& setup) const {
  if (!options_.has_schedule()) return;
  ensure(plan.micro_batches.size() == schedule_->micro_batches, "the schedule's micro-batches");
  const Placement& placement = schedule_->placement;
  const auto stage = static_cast<std::size_t>(plan.mesh.coordinates().pp);
  const std::vector<nn::StageSpec> parts =
      parts_of_model(layers_of_parts(options_.split, placement, plan, setup.train));
  plan.schedule = schedule_->ranks[stage];
  plan.chunks.clear();
  for (std::size_t chunk = 0; chunk < placement.chunks(); ++chunk) {
    plan.chunks.push_back(parts[placement.part_at({.stage = stage, .chunk = chunk})]);
  }
  if (setup.train.model.tied_embeddings && options_.pp > 1) add_tied_group(plan, placement);
}

void PipelineParallel::wrap(train::FactoryStack& factories, const train::Plan&,
                            const train::Setup& setup) const {
  if (!schedule_ || !splits_backward(*schedule_) || setup.ranks_along(MeshDim::kTp) > 1) return;
  factories.push_back(std::make_unique<SplitLinearFactory>(*factories.back()));
}

void PipelineParallel::join(train::Ingredients& ingredients, const train::Setup& setup) const {
  if (!options_.has_schedule()) return;
  const auto log = std::make_shared<ActionLog>();
  const std::shared_ptr<const PipelineSchedule> schedule = schedule_;
  ingredients.links.claim(options_.flags(), [=, shared_by = parts_of_tokens(setup)](
                                                const train::ModelScope& scope) {
    return std::make_unique<PipelineLinks>(
        scope.plan.mesh.pp(), *schedule,
        border_tensors(scope.plan, scope.context.device, scope.context.options, shared_by), log);
  });
  ingredients.observers.emplace_back([=, gantt = options_.gantt](const train::ModelScope& scope) {
    return record_passes(scope, *schedule, log, gantt);
  });
  if (!train::updates_between(schedule_->ranks.front())) return;
  ingredients.observers.emplace_back([](const train::ModelScope& scope) {
    return std::make_unique<WeightStash>(*scope.chunks.front(), scope.plan.counters);
  });
}
// [/region]

std::vector<train::UnsavedState> PipelineParallel::states_that_are_not_saved() const {
  const bool updates =
      !options_.schedule_file.empty()
          ? train::updates_between(
                schedule_from_file("--schedule-file", options_.schedule_file).ranks.front())
          : !options_.searches && options_.schedule.kind == ScheduleKind::kPipedreamAsync;
  return {{.flag = updates ? options_.flags() : "--schedule pipedream-async",
           .reason = "each stage makes an update per micro-batch, and only one per step would be "
                     "counted. Leave out --checkpoint and --resume, or choose another schedule.",
           .kept = updates}};
}

std::optional<std::string> PipelineParallel::memory_table(const train::Setup& setup,
                                                          const train::TrainResult& result) const {
  if (!options_.has_schedule()) return {};
  return format_pipeline_table(setup, options_, *schedule_, result);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<PipelineParallel>(); }

namespace {

const PipelineParallel& pipeline_of(const train::Setup& setup) {
  const auto* pipeline = setup.find<PipelineParallel>();
  ensure(pipeline != nullptr, "a program without chapter 07");
  return *pipeline;
}

}  // namespace

const PipelineOptions& options_of(const train::Setup& setup) {
  return pipeline_of(setup).options();
}

const PipelineSchedule* schedule_of(const train::Setup& setup) {
  return pipeline_of(setup).schedule();
}

}  // namespace ultra::pipeline_parallel
