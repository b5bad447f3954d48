#include "chapters/07_pipeline_parallel/pipedream/pipedream.hpp"

#include <set>

#include "common/train/gradients/gradient_norm.hpp"

namespace ultra::pipeline_parallel {

using train::Action;
using train::ActionKind;

namespace {

// [region stage_updates]
class StageUpdates : public train::ReplicatedStates {
 public:
  /// Alone in its data group: there is nobody to exchange gradients with.
  explicit StageUpdates(const train::StatesScope& scope)
      : ReplicatedStates(scope, nullptr), squares_(scope.context.device, pieces().size()) {}

  void update_now(double learning_rate) {
    const std::vector<optim::TensorUpdate> made = ReplicatedStates::updates();
    for (std::size_t i = 0; i < made.size(); ++i) squares_.add_squares(i, made[i].grad);
    ReplicatedStates::update(made, {.learning_rate = learning_rate, .norm = 0, .clip_norm = 0});
    drop_gradients();
  }

  // At the step's end all of this is done.
  std::vector<optim::TensorUpdate> updates() override { return {}; }
  void update(std::span<const optim::TensorUpdate>, const train::StepRule&) override {}
  void add_squares(std::span<const optim::TensorUpdate>, const train::ParameterNumbers& numbers,
                   train::StepSums& sums) override {
    for (std::size_t i = 0; i < pieces().size(); ++i) {
      if (owns(i)) sums.add(numbers.of(*pieces()[i].parameter), squares_, i);
    }
    squares_.begin();
  }

 private:
  train::StepSums squares_;  // of the step's updates, by piece
};
// [/region]

class UpdatesInPasses : public train::StepObserver {
 public:
  explicit UpdatesInPasses(std::vector<StageUpdates*> states) : states_(std::move(states)) {}

  void step_begins(const train::StepPlan& plan) override { learning_rate_ = plan.learning_rate; }
  void action_begins(const Action& action) override {
    if (action.kind != ActionKind::kUpdate) return;
    for (StageUpdates* states : states_) states->update_now(learning_rate_);
  }

 private:
  std::vector<StageUpdates*> states_;
  double learning_rate_ = 0;
};

}  // namespace

void update_in_passes(train::StepConfig& step_config, const std::string& flags) {
  const auto states = std::make_shared<std::vector<StageUpdates*>>();
  step_config.states.claim(flags, [states](const train::StatesScope& scope) {
    auto made = std::make_unique<StageUpdates>(scope);
    states->push_back(made.get());
    return made;
  });
  step_config.observers.emplace_back(
      [states](const train::ModelScope&) { return std::make_unique<UpdatesInPasses>(*states); });
}

WeightStash::WeightStash(nn::Model& chunk, std::shared_ptr<train::RankCounters> counters)
    : chunk_(chunk), counters_(std::move(counters)) {
  std::vector<Tensor> values;
  for (const nn::Parameter* parameter : chunk_.parameters()) values.push_back(parameter->value());
  newest_ = std::make_shared<const std::vector<Tensor>>(std::move(values));
  count_versions();
}

// [region weight_stash]
void WeightStash::action_begins(const Action& action) {
  if (action.kind == ActionKind::kForward) read_[action.micro_batch] = newest_;
  if (action.kind == ActionKind::kBackward) load(read_.at(action.micro_batch));
  if (action.kind == ActionKind::kUpdate) keep_newest();
}

void WeightStash::action_ends(const Action& action) {
  if (action.kind != ActionKind::kBackward) return;
  load(newest_);
  read_.erase(action.micro_batch);
}

/// An update writes in place: into a copy, when a micro-batch under way has read these weights.
void WeightStash::keep_newest() {
  if (newest_.use_count() == 1) return;
  std::vector<Tensor> copies;
  for (const Tensor& value : *newest_) {
    copies.push_back(value.clone());
    copies.back().set_category(MemoryCategory::kParameters);
  }
  newest_ = std::make_shared<const std::vector<Tensor>>(std::move(copies));
  load(newest_);
  count_versions();
}
// [/region]

void WeightStash::load(const Version& version) {
  for (std::size_t i = 0; i < version->size(); ++i)
    chunk_.parameters()[i]->set_value((*version)[i]);
}

void WeightStash::count_versions() {
  std::set<const void*> versions = {newest_.get()};
  for (const auto& [micro_batch, version] : read_) versions.insert(version.get());
  if (versions.size() <= peak_) return;
  counters_->add(kPeakWeightVersions, static_cast<double>(versions.size() - peak_));
  peak_ = versions.size();
}

}  // namespace ultra::pipeline_parallel
