// Covers: common/train/rank_counters.hpp

#include "common/train/model_worker.hpp"

#include "common/comm/run_ranks.hpp"
#include "common/train/rank_counters.hpp"
#include "tests/common/train/run/rank_frame.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using test::RankFrame;

using Calls = std::vector<std::string>;

/// An exchange that says what becomes of it.
class LoggedExchange : public GradientExchange {
 public:
  explicit LoggedExchange(Calls& calls) : calls_(calls) {}
  void step_begins() override { calls_.emplace_back("passes"); }
  void finish() override { calls_.emplace_back("exchanged"); }

 private:
  Calls& calls_;
};

/// The states of one rank, which say what becomes of them.
class LoggedStates : public ReplicatedStates {
 public:
  LoggedStates(const StatesScope& scope, Calls& calls)
      : ReplicatedStates(scope, std::make_unique<LoggedExchange>(calls)), calls_(calls) {}

  std::vector<optim::TensorUpdate> updates() override {
    calls_.emplace_back("updates");
    return ReplicatedStates::updates();
  }
  void update(std::span<const optim::TensorUpdate> updates, const StepRule& rule) override {
    calls_.emplace_back("update");
    rules.push_back(rule);
    ReplicatedStates::update(updates, rule);
  }
  void drop_gradients() override {
    calls_.emplace_back("drop");
    ReplicatedStates::drop_gradients();
  }
  void step_ended(RankMeter&) override { calls_.emplace_back("step ended"); }
  void conclude(RankMeter&) override { calls_.emplace_back("conclude"); }

  std::vector<StepRule> rules;

 private:
  Calls& calls_;
};

/// Gives the parameters of some layers to another data group.
class OtherGroup : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;
  std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                  const nn::NormSpec& spec) override {
    auto norm = inner().norm(context, spec);
    norm->parameters()[0]->set_data_group("norms");
    return norm;
  }
};

class ModelWorkerTest : public ::testing::Test {
 protected:
  ModelWorkerTest() {
    step_config.states.claim("a test", [this](const StatesScope& scope) {
      groups.push_back(scope.data_group);
      auto made = std::make_unique<LoggedStates>(scope, calls);
      states.push_back(made.get());
      return made;
    });
    factories.push_back(std::make_unique<nn::DenseFactory>());
  }

  /// Calls `fn` with the worker of one rank.
  void with_worker(const std::function<void(ModelWorker&, const RankFrame&)>& fn,
                   const std::function<void(Plan&)>& change = {}) {
    run_ranks(1, [&](Communicator& world) {
      const RankFrame frame(options, world);
      if (change) change(*frame.plan);
      ModelWorker worker(frame.context, frame.plan, std::move(factories), step_config);
      fn(worker, frame);
    });
  }

  TrainOptions options = ultra::test::short_run();
  FactoryStack factories;
  StepConfig step_config;
  Calls calls;
  std::vector<std::string> groups;
  std::vector<LoggedStates*> states;
};

TEST_F(ModelWorkerTest, PassesThenCompletesThenUpdatesThenFreesTheGradients) {
  class Observer : public StepObserver {
   public:
    explicit Observer(Calls& calls) : calls_(calls) {}
    void step_begins(const StepPlan& plan) override { add("begins", plan); }
    void step_ends(const StepPlan& plan) override { add("ends", plan); }

   private:
    void add(const char* what, const StepPlan& plan) {
      calls_.push_back("step " + std::to_string(plan.step) + " " + what);
    }
    Calls& calls_;
  };
  step_config.observers.emplace_back(
      [&](const ModelScope&) { return std::make_unique<Observer>(calls); });
  step_config.sum_partial.claim(
      "a test", [&](std::span<const GradientPiece> pieces, const RankGroups& rank_groups) {
        calls.emplace_back("partial sums");
        EXPECT_EQ(pieces.size(), 2 * 9 + 3U);
        for (const GradientPiece& piece : pieces) {
          EXPECT_TRUE(piece.grad.shares_storage(piece.parameter->grad()));
        }
        EXPECT_EQ(rank_groups.at(nn::kDataGroup).size(), 1);
      });
  with_worker([&](ModelWorker& worker, const RankFrame& frame) {
    const StepOutcome outcome = worker.step({.step = 3, .learning_rate = 0.125});
    EXPECT_THAT(calls, ElementsAre("step 3 begins", "passes", "exchanged", "updates",
                                   "partial sums", "update", "drop", "step 3 ends", "step ended"));
    EXPECT_NEAR(outcome.loss, std::log(256.0), 0.1);
    ASSERT_EQ(states.size(), 1U);
    EXPECT_EQ(states[0]->rules.at(0).learning_rate, 0.125);
    EXPECT_EQ(states[0]->rules.at(0).norm, outcome.grad_norm) << "before clipping";
    EXPECT_EQ(states[0]->rules.at(0).clip_norm, options.clip_norm);
    const RankSeconds seconds = frame.meter.summary().seconds;
    EXPECT_GT(seconds.forward_backward, 0.0);
    EXPECT_EQ(seconds.optimizer, 0.0) << "the frame ends the step";
    calls.clear();
    std::vector<StepMetrics> steps;
    worker.conclude(steps);
    EXPECT_THAT(calls, ElementsAre("conclude"));
  });
}

TEST_F(ModelWorkerTest, DoesNotUpdateByALossOrANormThatIsNotFinite) {
  bool overflows = true;
  step_config.sum_partial.claim("a test",
                                [&](std::span<const GradientPiece> pieces, const RankGroups&) {
                                  if (overflows) pieces.front().grad.fill(INFINITY);
                                });
  with_worker([&](ModelWorker& worker, const RankFrame&) {
    const auto refusal = [&] {
      return ultra::test::message_of<NumericError>(
          [&] { static_cast<void>(worker.step({.step = 9, .learning_rate = 0.1})); });
    };
    EXPECT_THAT(refusal(), HasSubstr("the gradient norm is inf at step 9"));
    overflows = false;
    for (nn::Model* chunk : worker.chunks()) chunk->drop_grads();
    worker.chunks().front()->parameters().back()->value().fill(std::nan(""));
    EXPECT_THAT(refusal(), HasSubstr("the loss is nan at step 9"));
    EXPECT_THAT(states[0]->rules, IsEmpty());
  });
}

/// Finds an overflow in every step.
class AlwaysOverflows : public LossScaler {
 public:
  double scale() const override { return 1.0; }
  ScaledGradients step_ends(double) override { return {.overflow = true, .norm = 0, .factor = 1}; }
  std::size_t skipped() const override { return 0; }
  std::vector<double> state() const override { return {}; }
  void restore(const std::vector<double>&) override {}
};

TEST_F(ModelWorkerTest, TellsObserversOfSkippedStepsAndOfValidations) {
  class Observer : public StepObserver {
   public:
    explicit Observer(Calls& calls) : calls_(calls) {}
    void step_ends(const StepPlan&) override { calls_.emplace_back("step ends"); }
    void step_skipped(const StepPlan&) override { calls_.emplace_back("step skipped"); }
    void validation_ends() override { calls_.emplace_back("validation ends"); }

   private:
    Calls& calls_;
  };
  step_config.observers.emplace_back(
      [&](const ModelScope&) { return std::make_unique<Observer>(calls); });
  step_config.loss_scaler.claim("a test", [] { return std::make_unique<AlwaysOverflows>(); });
  with_worker([&](ModelWorker& worker, const RankFrame& frame) {
    EXPECT_TRUE(worker.step({.step = 1, .learning_rate = 0.125}).skipped);
    EXPECT_THAT(
        calls, ElementsAre("passes", "exchanged", "updates", "drop", "step skipped", "step ended"));
    calls.clear();
    static_cast<void>(worker.validate(frame.context.sampler, 1));
    EXPECT_THAT(calls, ElementsAre("validation ends"));
  });
}

TEST_F(ModelWorkerTest, KeepsStatesOfEachDataGroupApart) {
  factories.push_back(std::make_unique<OtherGroup>(*factories.back()));
  with_worker(
      [&](ModelWorker& worker, const RankFrame&) {
        EXPECT_THAT(groups, ElementsAre("data", "norms"));
        EXPECT_EQ(worker.state().states.size(), 2U);
        EXPECT_EQ(states[0]->pieces().size(), 2 * 7 + 2U);
        EXPECT_EQ(states[1]->pieces().size(), 2 * 2 + 1U);
        const StepOutcome outcome = worker.step({.step = 1, .learning_rate = 0.1});
        for (const LoggedStates* one : states) {
          EXPECT_EQ(one->rules.at(0).norm, outcome.grad_norm) << "of the whole gradient";
        }
      },
      [](Plan& plan) { plan.groups.add("norms", plan.ranks()); });
}

TEST_F(ModelWorkerTest, CountsTheWholeModelWhateverItHolds) {
  std::size_t whole = 0;
  for (const nn::NamedShape& p : nn::named_shapes(options.model, *factories[0])) {
    whole += p.shape.numel();
  }
  with_worker(
      [&](ModelWorker& worker, const RankFrame&) {
        EXPECT_EQ(worker.parameter_count(), whole);
        ASSERT_EQ(worker.chunks().size(), 1U);
        EXPECT_LT(worker.chunks()[0]->parameter_count(), whole);
        EXPECT_EQ(worker.state().parameters.size(), 2 * 9 + 3U);
      },
      [](Plan& plan) {
        plan.chunks[0].layers = {1, 2};
      });
}

TEST_F(ModelWorkerTest, RefusesAScheduleThatIsNotComplete) {
  EXPECT_THROW(with_worker([](ModelWorker&, const RankFrame&) {},
                           [](Plan& plan) { plan.schedule.pop_back(); }),
               InternalError);
}

}  // namespace
}  // namespace ultra::train
