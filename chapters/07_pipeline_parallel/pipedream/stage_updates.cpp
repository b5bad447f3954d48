#include "chapters/07_pipeline_parallel/pipedream/stage_updates.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "common/train/gradients/gradient_norm.hpp"

namespace ultra::pipeline_parallel {
namespace {

// [region stage_updates]
class StageUpdates : public train::ReplicatedStates {
 public:
  StageUpdates(const train::StatesScope& scope, std::unique_ptr<train::GradientExchange> exchange)
      : ReplicatedStates(scope, std::move(exchange)),
        squares_(scope.context.device, pieces().size()) {}

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
  void action_begins(const train::Action& action) override {
    if (action.kind != train::ActionKind::kUpdate) return;
    for (StageUpdates* states : states_) states->update_now(learning_rate_);
  }

 private:
  std::vector<StageUpdates*> states_;
  double learning_rate_ = 0;
};

}  // namespace

void update_in_passes(train::StepConfig& step_config, const std::string& flags) {
  const auto states = std::make_shared<std::vector<StageUpdates*>>();
  step_config.states.claim(
      flags, [states, exchange = step_config.exchange.get()](const train::StatesScope& scope) {
        auto made = std::make_unique<StageUpdates>(scope, train::exchange_of(scope, exchange));
        states->push_back(made.get());
        return made;
      });
  step_config.observers.emplace_back(
      [states](const train::ModelScope&) { return std::make_unique<UpdatesInPasses>(*states); });
}

}  // namespace ultra::pipeline_parallel
