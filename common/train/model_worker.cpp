#include "common/train/model_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/train/weights/frozen_weights.hpp"

namespace ultra::train {
namespace {

/// The data groups of the parameters, each once, in the order in which a forward pass meets them.
std::vector<std::string> data_groups_of(const std::vector<nn::Model*>& chunks) {
  std::vector<std::string> groups;
  for (const nn::Model* chunk : chunks) {
    for (const nn::Parameter* parameter : chunk->parameters()) {
      if (std::ranges::find(groups, parameter->data_group()) != groups.end()) continue;
      groups.push_back(parameter->data_group());
    }
  }
  return groups;
}

std::unique_ptr<ModelStates> make_replicated(const StatesScope& scope,
                                             const StepConfig& step_config) {
  return std::make_unique<ReplicatedStates>(scope, exchange_of(scope, step_config.exchange.get()));
}

}  // namespace

ModelWorker::ModelWorker(const RunContext& context, std::shared_ptr<const Plan> plan,
                         FactoryStack factories, const StepConfig& step_config)
    : context_(context),
      plan_(std::move(plan)),
      factories_(std::move(factories)),
      whole_(nn::named_shapes(context.options.model, *factories_.back())) {
  expect_to_train(context_.options.freeze, whole_);
  make_chunks(step_config.values);
  step_ = std::make_unique<Step>(context_, *plan_, whole_, make_parts(step_config));
}

StepParts ModelWorker::make_parts(const StepConfig& step_config) const {
  const ModelScope scope{.context = context_, .plan = *plan_, .chunks = chunks_};
  StepParts parts{.chunks = chunks_,
                  .states = make_states(step_config),
                  .completes = step_config.completes.get(),
                  .sum_partial = step_config.sum_partial.get(),
                  .links = nullptr,
                  .scaler = nullptr,
                  .observers = {}};
  if (const MakeLinks& make_links = step_config.links.get()) parts.links = make_links(scope);
  if (const MakeLossScaler& make = step_config.loss_scaler.get()) parts.scaler = make();
  for (const MakeObserver& make : step_config.observers) parts.observers.push_back(make(scope));
  return parts;
}

void ModelWorker::make_chunks(nn::Values values) {
  const TrainOptions& options = context_.options;
  for (const nn::StageSpec& stage : plan_->chunks) {
    owned_chunks_.push_back(std::make_unique<nn::Model>(options.model, context_.device,
                                                        options.formats(), options.seed,
                                                        *factories_.back(), stage, values));
    chunks_.push_back(owned_chunks_.back().get());
    name_phases(*chunks_.back());
    freeze(*chunks_.back(), options.freeze);
  }
}

std::vector<std::unique_ptr<ModelStates>> ModelWorker::make_states(
    const StepConfig& step_config) const {
  std::vector<std::unique_ptr<ModelStates>> states;
  const MakeWholeAlong& make_whole = step_config.whole.get();
  for (const std::string& group : data_groups_of(chunks_)) {
    const StatesScope scope{{context_, *plan_, chunks_},
                            group,
                            frozen_last(parameters_of(chunks_, group)),
                            plan_->groups.at(group),
                            {.rule = step_config.rule,
                             .wrap = step_config.weight_rule.get(),
                             .store = step_config.store.get(),
                             .whole = make_whole ? make_whole(*plan_) : MakeWhole()}};
    if (group == nn::kLocalGroup) {
      states.push_back(std::make_unique<ReplicatedStates>(scope, nullptr));
      continue;
    }
    const MakeStates& make = step_config.states.get();
    states.push_back(make ? make(scope) : make_replicated(scope, step_config));
  }
  return states;
}

void ModelWorker::name_phases(nn::Model& model) {
  trace::StepTimeline& timeline = context_.timeline;
  const Range layers = model.stage().layers;
  const auto layer_of = [blocks = model.block_parts(), layers](std::size_t part) {
    const bool is_block = part >= blocks.begin && part < blocks.end;
    return is_block ? std::optional(part - blocks.begin + layers.begin) : std::nullopt;
  };
  phases_.push_back(model.add_part_hook(
      {.forward =
           [&timeline, layer_of, last = layers.end - 1](const nn::PartCall& call) {
             const auto layer = layer_of(call.part);
             if (layer) timeline.enter(fmt::format("forward, block {}", *layer));
             call.compute();
             if (layer == last) timeline.enter("head and loss");
           },
       .backward =
           [&timeline, layer_of](const nn::PartCall& call) {
             const auto layer = layer_of(call.part);
             if (layer) timeline.enter(fmt::format("backward, block {}", *layer));
             call.compute();
             if (layer == 0U) timeline.enter("embedding");
           }}));
}

std::size_t ModelWorker::parameter_count() const {
  std::size_t count = 0;
  for (const nn::NamedShape& parameter : whole_) count += parameter.shape.numel();
  return count;
}

TrainerState ModelWorker::state() const {
  TrainerState state{.context = context_, .parameters = whole_, .states = step_->states()};
  if (LossScaler* scaler = step_->scaler()) {
    state.numbers.push_back(
        {.name = "loss_scaler",
         .read = [scaler] { return scaler->state(); },
         .restore = [scaler](const std::vector<double>& numbers) { scaler->restore(numbers); }});
  }
  return state;
}

void ModelWorker::conclude(std::vector<StepMetrics>&) {
  for (const auto& states : step_->states()) states->conclude(context_.meter);
  context_.meter.counted(*plan_->counters);
}

}  // namespace ultra::train
