// Covers: common/train/gradients/gradient_exchange.hpp
#include "common/train/gradients/gradient_ledger.hpp"

#include "tests/support/toolbox.hpp"
#include "tests/support/training/schedules.hpp"

namespace ultra::train {
namespace {

using test::schedule_of;

/// Writes down what it is told; finish() is the step's, not the ledger's.
class Log : public GradientExchange {
 public:
  void step_begins() override { lines.emplace_back("step"); }
  void action_begins(std::size_t chunk) override { add("begin", chunk); }
  void contributed(std::size_t parameter) override { add("part", parameter); }
  void completed(std::size_t parameter) override { add("all", parameter); }
  void action_ends(std::size_t chunk) override { add("end", chunk); }
  void finish() override { FAIL(); }

  /// What it was told since the last call.
  std::vector<std::string> news() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;

 private:
  void add(const char* what, std::size_t number) {
    lines.push_back(fmt::format("{} {}", what, number));
  }
};

/// A model whose gradients the test adds by hand; its exchange follows two of the parameters.
class Ledger : public ::testing::Test {
 protected:
  static nn::ModelConfig config(bool tied) {
    return {.vocab_size = 3,
            .hidden_size = 4,
            .num_layers = 1,
            .num_heads = 1,
            .num_kv_heads = 1,
            .ffn_hidden_size = 2,
            .max_seq_len = 2,
            .tied_embeddings = tied};
  }

  explicit Ledger(bool tied = false)
      : model(config(tied), Device::cpu(), DType::kF64, 1, factory),
        first(*model.parameters()[0]),
        last(*model.parameters().back()) {}

  GradientLedger ledger_of(CompletionRule rule, std::size_t chunks = 1) {
    return GradientLedger(std::vector<nn::Model*>(chunks, &model),
                          {{.parameters = {&first, &last}, .exchange = &log}}, std::move(rule));
  }

  static void add_to(nn::Parameter& parameter, double value = 1) {
    parameter.add_grad([value](const Tensor& grad, ops::Write write) {
      if (write == ops::Write::kOverwrite) grad.fill(0);
      for (double& element : grad.span<double>()) element += value;
    });
  }

  /// What a backward pass does: every parameter but one, backwards, as often as it is used.
  void add_all(const nn::Parameter* but = nullptr) {
    const auto& parameters = model.parameters();
    for (std::size_t i = parameters.size(); i-- > 0;) {
      if (parameters[i] == but) continue;
      for (std::size_t use = 0; use < model.uses(*parameters[i]); ++use) add_to(*parameters[i]);
    }
  }

  void run(GradientLedger& ledger, const std::string& schedule,
           const nn::Parameter* but = nullptr) {
    const StepSchedule actions = schedule_of(schedule);
    ledger.step_begins(actions);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      ledger.action_begins(i);
      if (actions[i].makes_gradients()) add_all(but);
      ledger.action_ends();
    }
    ledger.step_ends();
  }

  nn::DenseFactory factory;
  nn::Model model;
  nn::Parameter& first;
  nn::Parameter& last;
  Log log;
};

class TiedLedger : public Ledger {
 protected:
  TiedLedger() : Ledger(true) {}
};

/// The last action of the step completes everything.
std::size_t at_the_end(std::span<const Action> schedule, std::span<const std::size_t>) {
  return schedule.size() - 1;
}

TEST_F(Ledger, TellsContributionsAsTheyComeAndCompletionsAsTheRuleSays) {
  GradientLedger ledger = ledger_of(at_the_end);
  run(ledger, "F0 BW0 F1 BW1");
  EXPECT_THAT(log.news(), ElementsAre("step", "begin 0", "part 1", "part 0", "end 0", "begin 0",
                                      "part 1", "all 1", "part 0", "all 0", "end 0"));
  run(ledger, "F0 BW0");
  EXPECT_THAT(log.news(),
              ElementsAre("step", "begin 0", "part 1", "all 1", "part 0", "all 0", "end 0"))
      << "the next step begins anew";
}

TEST_F(Ledger, TellsCompletionsAtTheEndOfTheStepWithoutARule) {
  GradientLedger ledger = ledger_of({});
  run(ledger, "F0 BW0");
  EXPECT_THAT(log.news(),
              ElementsAre("step", "begin 0", "part 1", "part 0", "end 0", "all 0", "all 1"));
}

TEST_F(Ledger, AsksTheRuleOnceForAParameterThatTwoChunksShare) {
  std::vector<std::vector<std::size_t>> asked;
  GradientLedger ledger = ledger_of(
      [&](std::span<const Action> schedule, std::span<const std::size_t> chunks) {
        asked.emplace_back(chunks.begin(), chunks.end());
        return schedule.size() - 1;
      },
      2);
  run(ledger, "F0 F0.1 BW0.1 BW0");
  EXPECT_EQ(asked, std::vector(model.parameters().size(), (std::vector<std::size_t>{0, 1})));
  EXPECT_THAT(log.news(), ElementsAre("step", "begin 1", "part 1", "part 0", "end 1", "begin 0",
                                      "part 1", "all 1", "part 0", "all 0", "end 0"));
}

TEST_F(Ledger, NamesAParameterWithoutAGradient) {
  GradientLedger ledger = ledger_of(at_the_end);
  EXPECT_THAT(test::message_of<ConfigError>([&] { run(ledger, "F0 BW0", &first); }),
              HasSubstr(first.name() + " got no gradient in BW0"));
}

TEST_F(Ledger, NamesAParameterWithAGradientTooMany) {
  GradientLedger ledger = ledger_of(at_the_end);
  ledger.step_begins(schedule_of("F0 BW0"));
  ledger.action_begins(1);
  add_to(last);
  EXPECT_THAT(test::message_of<ConfigError>([&] { add_to(last); }),
              HasSubstr(last.name() + " got two gradients in one backward pass"));
}

TEST_F(Ledger, GivesZerosToAParameterThatMayBeIdle) {
  first.allow_idle();
  GradientLedger ledger = ledger_of(at_the_end);
  run(ledger, "F0 BW0 F1 BW1", &first);
  EXPECT_EQ(log.news(),
            (std::vector<std::string>{"step", "begin 0", "part 1", "part 0", "end 0", "begin 0",
                                      "part 1", "all 1", "part 0", "all 0", "end 0"}))
      << "those who follow see no difference";
  EXPECT_EQ(first.grad().to_vector(), std::vector<double>(first.count(), 0.0));

  const StepSchedule schedule = schedule_of("F0 BW0 F1 BW1");
  model.drop_grads();
  ledger.step_begins(schedule);
  for (const std::size_t action : {1U, 3U}) {
    ledger.action_begins(action);
    add_all(action == 3 ? &first : nullptr);
    ledger.action_ends();
  }
  EXPECT_EQ(first.grad().to_vector(), std::vector<double>(first.count(), 1.0))
      << "what an earlier micro-batch has left stays";
}

TEST_F(TiedLedger, AWeightOfTwoLayersHasContributedWhenBothHave) {
  ASSERT_EQ(model.uses(first), 2U);
  GradientLedger ledger = ledger_of(at_the_end);
  ledger.step_begins(schedule_of("F0 BW0"));
  ledger.action_begins(1);
  static_cast<void>(log.news());
  add_to(first);
  EXPECT_THAT(log.news(), IsEmpty());
  add_to(first);
  EXPECT_THAT(log.news(), ElementsAre("part 0", "all 0"));
  EXPECT_THROW(add_to(first), ConfigError) << "a third time";
}

TEST_F(TiedLedger, OneUseOfTwoIsNoneUnlessTheWeightMayBeIdle) {
  GradientLedger ledger = ledger_of(at_the_end);
  const auto use_once = [&] {
    model.drop_grads();
    ledger.step_begins(schedule_of("F0 BW0"));
    ledger.action_begins(1);
    add_all(&first);
    add_to(first);
    ledger.action_ends();
  };
  EXPECT_THROW(use_once(), ConfigError);
  first.allow_idle();
  static_cast<void>(log.news());
  EXPECT_NO_THROW(use_once());
  EXPECT_EQ(first.grad().to_vector(), std::vector<double>(first.count(), 1.0));
  EXPECT_THAT(log.news(),
              ElementsAre("step", "begin 0", "part 1", "all 1", "part 0", "all 0", "end 0"));
}

TEST_F(Ledger, LooksAwayBetweenActionsAndWhenItIsGone) {
  {
    GradientLedger ledger = ledger_of(at_the_end);
    ledger.step_begins(schedule_of("F0 BW0"));
    static_cast<void>(log.news());
    for (int times = 0; times < 3; ++times) add_all();
  }
  for (int times = 0; times < 3; ++times) add_all();
  EXPECT_THAT(log.news(), IsEmpty());
}

}  // namespace
}  // namespace ultra::train
