#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/execution/pass_recorder.hpp"
#include "chapters/07_pipeline_parallel/execution/pipeline_links.hpp"
#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/options/pipeline_options.hpp"
#include "chapters/07_pipeline_parallel/pipedream/pipedream.hpp"
#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"
#include "chapters/07_pipeline_parallel/split_linear.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Collects what one kind of schedule excludes.
class Conflicts {
 public:
  /// @param applies  whether the schedule is of that kind.
  /// @param general  one of them, where it is not.
  Conflicts(bool applies, const std::string& name, const char* general)
      : applies_(applies), schedule_("--schedule " + (applies ? name : std::string(general))) {}

  void add(bool given, const std::string& flag, const std::string& reason) {
    all_.push_back(
        {.first = flag, .second = schedule_, .reason = reason, .broken = applies_ && given});
  }
  std::vector<train::Conflict> take() { return std::move(all_); }

 private:
  bool applies_;
  std::string schedule_;
  std::vector<train::Conflict> all_;
};

std::string with_number(const char* flag, bool given, std::size_t number) {
  return given ? fmt::format("{} {}", flag, number) : flag;
}

/// Both ends of the model on one rank are two tables on it, whose gradients nobody adds up.
bool joins_ends(const Placement& placement) {
  return placement.parts() > 1 &&
         placement.at(0).stage == placement.at(placement.parts() - 1).stage;
}

std::string both_ends_on(const PipelineSchedule* schedule) {
  if (schedule && schedule->stages() == 1) {
    return fmt::format(
        "the one rank has both ends of the model, in {} parts. Choose a schedule of one part per "
        "rank, or another model.",
        schedule->placement.parts());
  }
  return "the first rank has both ends of the model, in two parts. Choose a schedule without a V, "
         "or another model.";
}

/// Why the end of a model reads the token table of its begin.
std::array<std::pair<bool, const char*>, 2> shared_tables(const nn::ModelConfig& model) {
  return {{{model.tied_embeddings, "a tied token table"}, {model.mtp, "--mtp"}}};
}

/// Updates of a stage between its passes: nobody else takes part in them.
void exclude_company(Conflicts& lone, const PipelineSchedule* schedule, const train::Setup& setup) {
  const char* alone =
      "each stage updates its weights on its own, many times in a step. Leave one of the two out.";
  const auto replicas = static_cast<std::size_t>(schedule ? setup.replicas() : 1);
  lone.add(replicas > 1, with_number("--dp", replicas > 1, replicas), alone);
  for (const auto& [axis, flag] :
       {std::pair{context_parallel::kAxis, "--cp"}, {tensor_parallel::kAxis, "--tp"}}) {
    const std::size_t ranks = setup.ranks_along(axis);
    lone.add(ranks > 1, with_number(flag, ranks > 1, ranks), alone);
  }
  const zero::ZeroOptions& zero = zero::zero_of(setup).options();
  lone.add(
      zero.shards(),
      zero.shards() ? fmt::format("--zero {}", zero::number_of(zero.stage)) : "--zero 1, 2 or 3",
      alone);
  lone.add(data_parallel::options_of(setup).compress != "none", "--compress", alone);
  lone.add(setup.train.clip_norm > 0, fmt::format("--clip {}", setup.train.clip_norm),
           "no stage waits until all know the norm of the whole gradient. Give --clip 0.");
  lone.add(schedule && schedule->placement.chunks() > 1, "several parts on a rank",
           "one update is one of all that a rank has. Write a schedule with one chunk per rank.");
  for (const auto& [given, what] : shared_tables(setup.train.model)) {
    lone.add(given, what,
             "its two ends make their updates at different times. Choose another schedule.");
  }
}

/// What the techniques of a training cannot do under a schedule: V-shaped ones, and those
/// that update between passes.
/// @param name      of the schedule, as the flags have it.
/// @param schedule  settled; null: no flag asks for one, and nothing is broken.
std::vector<train::Conflict> schedule_conflicts(const std::string& name,
                                                const PipelineSchedule* schedule,
                                                const train::Setup& setup) {
  Conflicts joined(schedule && joins_ends(schedule->placement), name, "zb-v or dualpipe-v");
  for (const auto& [given, what] : shared_tables(setup.train.model)) {
    joined.add(given, what, both_ends_on(schedule));
  }
  Conflicts lone(schedule && train::updates_between(schedule->ranks.front()), name,
                 "pipedream-async");
  exclude_company(lone, schedule, setup);
  std::vector<train::Conflict> all = joined.take();
  for (train::Conflict& conflict : lone.take()) all.push_back(std::move(conflict));
  return all;
}

/// The layers of each part, where they follow from the flags.
std::optional<std::vector<std::size_t>> known_layers(const train::Setup& setup,
                                                     const StageSplit& split,
                                                     const Placement& placement) {
  switch (split.rule) {
    case StageSplit::Rule::kGiven:
      return split.layers;
    case StageSplit::Rule::kBalanced:
      return balanced_layers(setup.train.model.num_layers, placement,
                             operations_of(setup.train.model));
    case StageSplit::Rule::kMeasured:
      break;
  }
  return {};
}

std::string layers_text(const Placement& placement, std::size_t stage,
                        std::span<const std::size_t> layers) {
  std::string text;
  for (std::size_t chunk = 0; chunk < placement.chunks(); ++chunk) {
    const std::size_t part = placement.part_at({.stage = stage, .chunk = chunk});
    text += fmt::format("{}{}", chunk == 0 ? "" : "+", layers[part]);
  }
  return text;
}

std::size_t held(const train::RankSummary& rank) {
  const auto found = rank.counters.sums().find(kPeakActivations);
  return found == rank.counters.sums().end() ? 0 : static_cast<std::size_t>(found->second);
}

/// The layers of each stage of the first pipeline, and what it held.
std::string format_stages(const train::Setup& setup, const PipelineOptions& options,
                          const PipelineSchedule& schedule, const train::TrainResult& result) {
  const auto layers = known_layers(setup, options.split, schedule.placement);
  const std::size_t ranks_of_stage =
      setup.ranks_along(context_parallel::kAxis) * setup.ranks_along(tensor_parallel::kAxis);
  std::string table = fmt::format("\n  {}, {} micro-batches\n  stage  layers  held\n",
                                  options.schedule_name(), schedule.micro_batches);
  for (std::size_t stage = 0; stage < options.pp; ++stage) {
    table += fmt::format("  {:>5}{:>8}{:>6}\n", stage,
                         layers ? layers_text(schedule.placement, stage, *layers) : "-",
                         held(result.ranks.at(stage * ranks_of_stage)));
  }
  return table + "  held: micro-batches times chunks whose activations a stage had at a time.\n";
}

/// Ranks that share the tokens between layers.
std::size_t parts_of_tokens(const train::Setup& setup) {
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  return tensor && tensor->options().layout().splits_sequences() ? tensor->options().tp : 1;
}

/// Stages that hold the token table: the two ends, when the last one reads it too.
void add_tied_group(train::Plan& plan, const Placement& placement) {
  const auto is_end = [&](int rank) {
    const auto stage = static_cast<std::size_t>(rank);
    return stage == placement.at(0).stage || stage == placement.at(placement.parts() - 1).stage;
  };
  plan.groups.add(std::string(nn::kTiedGroup), plan.mesh.along(kAxis).split(is_end, "both ends"));
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

void PipelineParallel::validate(train::Setup&) { options_.validate(); }

std::vector<train::Conflict> PipelineParallel::conflicts(const train::Setup& setup) const {
  return schedule_conflicts(options_.schedule_name(), schedule_.get(), setup);
}

std::vector<train::Conflict> PipelineParallel::conflicts_with_recording(const train::Setup&) const {
  return {train::not_recorded("--stage-split measured",
                              "the pieces would be measured on this machine. Use balanced, or give "
                              "the layers of each part.",
                              options_.split.rule == StageSplit::Rule::kMeasured)};
}

void PipelineParallel::check_ranks(train::Setup& setup) {
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
  train::reject_conflicts(conflicts(setup));
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

Axis axis_of(std::size_t ranks) {
  return {.name = std::string(kAxis),
          .size = ranks,
          .splits = Splits::kLayers,
          .nearness = 20,
          .flag = fmt::format("--pp {}", ranks),
          .alike = false};
}

std::optional<Axis> PipelineParallel::axis() const { return axis_of(options_.pp); }

// [region technique]
void PipelineParallel::configure_plan(train::Plan& plan, const train::Setup& setup) const {
  if (!options_.has_schedule()) return;
  ensure(plan.micro_batches.size() == schedule_->micro_batches, "the schedule's micro-batches");
  const Placement& placement = schedule_->placement;
  const auto stage = static_cast<std::size_t>(plan.mesh.along(kAxis).rank());
  const std::vector<nn::StageSpec> parts =
      parts_of_model(layers_of_parts(options_.split, placement, plan, setup.train));
  plan.schedule = schedule_->ranks[stage];
  plan.chunks.clear();
  for (std::size_t chunk = 0; chunk < placement.chunks(); ++chunk) {
    plan.chunks.push_back(parts[placement.part_at({.stage = stage, .chunk = chunk})]);
  }
  if (setup.train.model.reads_table_twice() && options_.pp > 1) add_tied_group(plan, placement);
}

void PipelineParallel::wrap_layers(train::FactoryStack& factories, const train::Plan&,
                                   const train::Setup& setup) const {
  if (!schedule_ || !splits_backward(*schedule_) || setup.ranks_along(tensor_parallel::kAxis) > 1)
    return;
  factories.push_back(std::make_unique<SplitLinearFactory>(*factories.back()));
}

void PipelineParallel::configure_step(train::StepConfig& step_config,
                                      const train::Setup& setup) const {
  if (!options_.has_schedule()) return;
  const auto log = std::make_shared<ActionLog>();
  const std::shared_ptr<const PipelineSchedule> schedule = schedule_;
  step_config.links.claim(options_.flags(), [=, shared_by = parts_of_tokens(setup)](
                                                const train::ModelScope& scope) {
    return std::make_unique<PipelineLinks>(
        scope.plan.mesh.along(kAxis), *schedule,
        border_tensors(scope.plan, scope.context.device, scope.context.options, shared_by), log);
  });
  step_config.observers.emplace_back([=, gantt = options_.gantt](const train::ModelScope& scope) {
    return record_passes(scope, *schedule, log, gantt);
  });
  if (!train::updates_between(schedule_->ranks.front())) return;
  step_config.observers.emplace_back([](const train::ModelScope& scope) {
    return std::make_unique<WeightStash>(*scope.chunks.front(), scope.plan.counters);
  });
  update_in_passes(step_config, options_.flags());
}
// [/region]

std::vector<train::UnsavedState> PipelineParallel::states_that_are_not_saved() const {
  const bool updates =
      !options_.schedule_file.empty()
          ? train::updates_between(
                schedule_from_file("--schedule-file", options_.schedule_file).ranks.front())
          : !options_.searches && options_.schedule.row().updates;
  return {{.flag = updates ? options_.flags() : "--schedule pipedream-async",
           .reason = "each stage makes an update per micro-batch, and only one per step would be "
                     "counted. Leave out --checkpoint and --resume, or choose another schedule.",
           .kept = updates}};
}

std::string PipelineParallel::table(const train::Setup& setup,
                                    const train::TrainResult& result) const {
  if (!options_.has_schedule()) return {};
  return format_stages(setup, options_, *schedule_, result);
}

void PipelineParallel::write_formulas(train::Formulas& formulas, const train::Setup&) const {
  if (schedule_) formulas.clear();
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
