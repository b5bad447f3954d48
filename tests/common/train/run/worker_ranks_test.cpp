#include "common/train/run/worker.hpp"

#include <nlohmann/json.hpp>

#include "common/train/run/trainer.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

using nlohmann::json;
using ::ultra::test::Fates;
using ::ultra::test::fates_of;
using ultra::test::losses_of;
using ultra::test::quietly;

constexpr std::size_t kParameters = 1234;

/// A number as a message.
Tensor message_of_one(double number) {
  const Tensor tensor = Tensor::empty(Device::cpu(), {1}, DType::kF64);
  tensor.fill(number);
  return tensor;
}

/// Trains nothing: sums its loss, which only it knows, over the ranks at the end.
class FakeTrainer : public Worker {
 public:
  FakeTrainer(const RunContext& context, std::vector<std::string>& calls)
      : world_(context.world), calls_(calls) {}

  StepOutcome step(const StepPlan& plan) override {
    calls_.push_back("step " + std::to_string(plan.step));
    return {.loss = static_cast<double>(10 * plan.step) + world_.rank(),
            .grad_norm = 1.0 + world_.rank()};
  }

  [[nodiscard]] std::size_t parameter_count() const override { return kParameters; }

  void conclude(std::vector<StepMetrics>& steps) override {
    calls_.emplace_back("conclude");
    for (StepMetrics& step : steps) {
      step.loss = sum(step.loss);
      step.grad_norm = sum(step.grad_norm);
    }
  }

 protected:
  [[nodiscard]] const Communicator& world() const { return world_; }

 private:
  [[nodiscard]] double sum(double number) const {
    const Tensor tensor = message_of_one(number);
    world_.all_reduce(tensor, ReduceOp::kSum).wait();
    return tensor.to_vector()[0];
  }

  const Communicator& world_;
  std::vector<std::string>& calls_;
};

class Workers : public ::testing::Test {
 protected:
  Workers() {
    options.steps = 3;
    options.metrics = folder.path("metrics.jsonl");
    options.trace = folder.path("trace.json");
  }

  template <class Kind>
  static MakeWorker maker(std::vector<std::string>& calls) {
    return [&calls](const RunContext& context) { return std::make_unique<Kind>(context, calls); };
  }

  /// The step events of the metrics file, and its summary as the last.
  [[nodiscard]] std::vector<json> events() const { return ultra::test::events_of(options.metrics); }

  ultra::test::TemporaryFolder folder;  // each process has its own, that of rank 0 counts
  TrainOptions options = ultra::test::short_run();
  data::SharedDataset text;
};

TEST_F(Workers, ConcludeOnceAndWhatTheyReplaceIsTheResult) {
  const std::string printed = quietly([&] {
    run_ranks(3, [&](Communicator& world) {
      std::vector<std::string> calls;
      const TrainResult result =
          train(options, text, maker<FakeTrainer>(calls), {{"kind", "fake"}}, world);
      EXPECT_THAT(calls, ElementsAre("step 1", "step 2", "step 3", "conclude"));
      EXPECT_THAT(losses_of(result), ElementsAre(33, 63, 93)) << "30 s + 0 + 1 + 2";
      for (const StepMetrics& step : result.steps) EXPECT_EQ(step.grad_norm, 6.0);
      EXPECT_EQ(result.parameters, kParameters);
      ASSERT_EQ(result.ranks.size(), 3U);
      for (const RankSummary& rank : result.ranks) {
        EXPECT_EQ(rank.communication[OpKind::kAllReduce].operations, 2 * options.steps)
            << "what conclude() sends is the training's";
        EXPECT_GE(rank.seconds.total, rank.seconds.compute);
      }
    });
  });
  if (launched_rank() != 0) return;
  EXPECT_THAT(printed, HasSubstr("1,234 parameters in f32, trained by 3 ranks"));
  EXPECT_THAT(printed, HasSubstr("loss 10.0000")) << "rank 0's own, while the run goes on";
  const std::vector<json> lines = events();
  ASSERT_EQ(lines.size(), options.steps + 1);
  for (std::size_t i = 0; i < options.steps; ++i) {
    EXPECT_EQ(lines[i].at("loss"), 33.0 + 30.0 * static_cast<double>(i));
    EXPECT_EQ(lines[i].at("grad_norm"), 6.0);
  }
  EXPECT_EQ(lines.back().at("losses"), (json{33.0, 63.0, 93.0}));
  EXPECT_EQ(lines.back().at("parameters"), kParameters);
  EXPECT_EQ(lines.back().at("config").at("kind"), "fake");
}

TEST_F(Workers, ThatThrowEndTheOthersAndLeaveNoFile) {
  class Thrower : public FakeTrainer {
   public:
    using FakeTrainer::FakeTrainer;
    StepOutcome step(const StepPlan& plan) override {
      if (plan.step == 2) throw NumericError("step 2 went wrong");
      return FakeTrainer::step(plan);
    }
  };
  class LateThrower : public FakeTrainer {
   public:
    using FakeTrainer::FakeTrainer;
    void conclude(std::vector<StepMetrics>&) override {
      throw NumericError("the conclusion went wrong");
    }
  };
  const auto expect_fates = [&](bool late, const std::string& message) {
    Fates fates;
    quietly([&] {
      fates = fates_of(3, [&](Communicator& world) {
        std::vector<std::string> calls;
        const MakeWorker plain = maker<FakeTrainer>(calls);
        const MakeWorker throws = late ? maker<LateThrower>(calls) : maker<Thrower>(calls);
        static_cast<void>(train(options, text, world.rank() == 1 ? throws : plain, {}, world));
      });
    });
    ultra::test::expect_told<NumericError>(fates, late ? "at the end" : "in a step", 1, message);
    EXPECT_THAT(folder.names(), IsEmpty());
  };
  expect_fates(false, "step 2 went wrong");
  expect_fates(true, "the conclusion went wrong");
}

/// Has made two steps in an earlier run.
class ContinuedTrainer : public FakeTrainer {
 public:
  ContinuedTrainer(const RunContext& context, std::vector<std::string>& calls)
      : FakeTrainer(context, calls), log_(calls) {}

  std::vector<StepMetrics> history() override {
    log_.emplace_back("history");
    std::vector<StepMetrics> steps(2);
    steps[0] = {.step = 1, .loss = 7, .grad_norm = 1, .learning_rate = 0, .tokens_per_second = 1};
    steps[1] = {.step = 2, .loss = 6, .grad_norm = 1, .learning_rate = 0, .tokens_per_second = 1};
    return steps;
  }

  void step_ended(const std::vector<StepMetrics>& steps) override {
    log_.push_back("ended " + std::to_string(steps.size()));
    EXPECT_EQ(steps.back().step, steps.size());
    EXPECT_GT(steps.back().tokens_per_second, 0) << "the step has been measured";
  }

  void conclude(std::vector<StepMetrics>&) override { log_.emplace_back("conclude"); }

 private:
  std::vector<std::string>& log_;
};

TEST_F(Workers, GoOnBehindTheirHistory) {
  options.steps = 4;
  options.trace_steps = 1;
  const std::string printed = quietly([&] {
    run_ranks(2, [&](Communicator& world) {
      std::vector<std::string> calls;
      const TrainResult result = train(options, text, maker<ContinuedTrainer>(calls), {}, world);
      EXPECT_THAT(calls,
                  ElementsAre("history", "step 3", "ended 3", "step 4", "ended 4", "conclude"));
      EXPECT_EQ(result.earlier_steps, 2U);
      EXPECT_EQ(result.steps_made(), 2U);
      EXPECT_THAT(losses_of(result), ElementsAre(7, 6, 30 + world.rank(), 40 + world.rank()));
      EXPECT_DOUBLE_EQ(result.tokens_per_second(options),
                       static_cast<double>(2 * options.global_batch * options.model.max_seq_len) /
                           result.seconds);
    });
  });
  if (launched_rank() != 0) return;
  EXPECT_THAT(printed, HasSubstr("step     3/4"));
  const std::vector<json> written = events();
  ASSERT_EQ(written.size(), 5U) << "all steps and the summary";
  EXPECT_EQ(written.front().at("loss"), 7);
  EXPECT_EQ(written.back().at("earlier_steps"), 2);
  const std::string trace = ultra::test::read_file(options.trace);
  EXPECT_THAT(trace, HasSubstr("step 3")) << "the first step that is made is traced";
  EXPECT_THAT(trace, ::testing::Not(HasSubstr("step 4")));
}

TEST_F(Workers, WithNothingLeftToDoStillHaveTheirHistory) {
  options.steps = 2;
  quietly([&] {
    run_ranks(2, [&](Communicator& world) {
      std::vector<std::string> calls;
      const TrainResult result = train(options, text, maker<ContinuedTrainer>(calls), {}, world);
      EXPECT_THAT(calls, ElementsAre("history", "conclude"));
      EXPECT_THAT(losses_of(result), ElementsAre(7, 6));
      EXPECT_EQ(result.tokens_per_second(options), 0);
    });
  });
}

}  // namespace
}  // namespace ultra::train
