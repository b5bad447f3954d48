// Covers: common/train/stage_links.hpp
// Covers: common/train/scheduled_passes.hpp
// Covers: common/train/step_observer.hpp
// Covers: common/train/step_schedule.hpp

#include "common/train/step.hpp"

#include <map>

#include "common/train/step_schedule.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"
#include "tests/support/training/schedules.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

using test::schedule_of;

/// Hands tensors from chunk to chunk of one rank.
class OwnLinks : public StageLinks {
 public:
  Tensor receive(const Action& forward) override { return take(outputs_, forward, -1); }
  void send(const Action& forward, const Tensor& output) override {
    outputs_[{forward.micro_batch, forward.chunk}] = output;
  }
  Tensor receive_gradient(const Action& backward) override { return take(gradients_, backward, 1); }
  void send_gradient(const Action& backward, const Tensor& gradient) override {
    gradients_[{backward.micro_batch, backward.chunk}] = gradient;
  }
  void finish() override { ++finished; }

  int finished = 0;

 private:
  using Tensors = std::map<std::pair<std::size_t, std::size_t>, Tensor>;
  static Tensor take(Tensors& tensors, const Action& action, int where) {
    const auto at =
        tensors.find({action.micro_batch, action.chunk + static_cast<std::size_t>(where)});
    if (at == tensors.end()) throw std::logic_error(action.str() + " finds nothing");
    return tensors.extract(at).mapped();
  }

  Tensors outputs_;
  Tensors gradients_;
};

/// Runs schedules on a small model, and the same passes by hand.
class RunSchedule : public test::RandomTest {
 protected:
  static constexpr std::size_t kStep = 3;

  RunSchedule() {
    config.vocab_size = data::kByteVocabulary;
    config.num_layers = 3;
  }

  nn::Model make(const nn::StageSpec& stage, nn::LayerFactory& factory) {
    return {config, device, DType::kF64, seed, factory, stage};
  }
  nn::Model make() { return make(nn::StageSpec::whole(config), dense); }

  /// The loss and the gradients of the passes, one micro-batch after the other.
  double run_by_hand(nn::Model& model) {
    double loss = 0;
    for (const MicroBatch& m : micro_batches) {
      const data::Batch batch = sampler.batch(device, kStep, m.sequences);
      loss += test::run_step(model, {batch.tokens, batch.targets}, m.normalizer);
    }
    return loss;
  }

  double run(const std::string& schedule, std::vector<nn::Model*> chunks,
             StageLinks* links = nullptr) {
    const StepSchedule actions = schedule_of(schedule);
    return run_schedule({.chunks = chunks,
                         .schedule = actions,
                         .micro_batches = micro_batches,
                         .share = sampler,
                         .step = kStep,
                         .links = links});
  }

  void expect_gradients(const nn::Model& model, const nn::Model& expected) {
    for (const nn::Parameter* parameter : model.parameters()) {
      for (const nn::Parameter* other : expected.parameters()) {
        if (other->name() != parameter->name()) continue;
        EXPECT_TRUE(test::all_equal(parameter->grad(), other->grad())) << parameter->name();
      }
    }
  }

  nn::ModelConfig config = test::random_model_config(random);
  data::Dataset text = data::Dataset::from_file(test::kText);
  data::Sampler sampler{text, config.max_seq_len, 6, seed};
  std::vector<MicroBatch> micro_batches{{.sequences = {0, 3}, .normalizer = 100.0},
                                        {.sequences = {3, 5}, .normalizer = 100.0},
                                        {.sequences = {5, 6}, .normalizer = 50.0}};
  nn::DenseFactory dense;
};

TEST_F(RunSchedule, IsForwardAndBackwardByHandInEveryOrderThatAddsUpAlike) {
  nn::Model expected = make();
  const double loss = run_by_hand(expected);
  for (const char* schedule :
       {"F0 BW0 F1 BW1 F2 BW2", "F0 F1 F2 BW0 BW1 BW2", "F0 F1 BW0 F2 BW1 BW2",
        "F0 B0 W0 F1 B1 W1 F2 B2 W2", "F0 F1 F2 B2 B1 B0 W0 W1 W2", "F0 B0 F1 B1 W0 F2 W1 BW2"}) {
    SCOPED_TRACE(schedule);
    nn::Model model = make();
    EXPECT_EQ(run(schedule, {&model}), loss);
    expect_gradients(model, expected);
    EXPECT_EQ(device.memory().current()[MemoryCategory::kActivations], 0U);
  }
}

TEST_F(RunSchedule, MakesGradientsInTheSecondHalfOfASplitBackwardPass) {
  nn::Model model = make();
  run("F0 B0", {&model});
  for (const nn::Parameter* parameter : model.parameters()) {
    EXPECT_FALSE(parameter->grad().defined()) << parameter->name();
  }
  run("F0 F1 B0 BW1", {&model});
  EXPECT_TRUE(model.parameters().front()->grad().defined()) << "micro-batch 1 does not wait";
}

TEST_F(RunSchedule, TokensOfWeightZeroCountInNoLossAndNoGradient) {
  nn::Model expected = make();
  const double loss = run_by_hand(expected);
  micro_batches.push_back({.sequences = {5, 6}, .normalizer = 50.0, .weight = 0.0});
  nn::Model model = make();
  EXPECT_EQ(run("F0 BW0 F1 BW1 F2 BW2 F3 BW3", {&model}), loss);
  expect_gradients(model, expected);
}

TEST_F(RunSchedule, ChunksHandActivationsOnAndGradientsBack) {
  nn::Model expected = make();
  const double loss = run_by_hand(expected);
  for (const char* schedule : {"F0 F0.1 F0.2 BW0.2 BW0.1 BW0 F1 F1.1 F1.2 BW1.2 BW1.1 BW1 F2 F2.1 "
                               "F2.2 BW2.2 BW2.1 BW2",
                               "F0 F1 F0.1 F2 F1.1 F0.2 B0.2 B0.1 F2.1 F1.2 B0 B1.2 F2.2 W0.2 W0 "
                               "W0.1 W1.2 BW1.1 BW1 BW2.2 BW2.1 BW2"}) {
    SCOPED_TRACE(schedule);
    nn::Model begin = make({.layers = {0, 1}, .has_head = false}, dense);
    nn::Model middle = make({.layers = {1, 3}, .has_embedding = false, .has_head = false}, dense);
    nn::Model end = make({.layers = {3, 3}, .has_embedding = false}, dense);
    OwnLinks links;
    EXPECT_EQ(run(schedule, {&begin, &middle, &end}, &links), loss);
    EXPECT_EQ(links.finished, 1);
    for (const nn::Model* chunk : {&begin, &middle, &end}) expect_gradients(*chunk, expected);
  }
}

/// Writes down the pass that each micro-batch's activations belong to.
class PassRecorder : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  std::unique_ptr<nn::LossLayer> loss(const nn::BuildContext& context) override {
    class Recorder : public nn::LossLayer {
     public:
      Recorder(std::unique_ptr<nn::LossLayer> inner, std::vector<nn::Pass>& passes)
          : inner_(std::move(inner)), passes_(passes) {}
      double forward(const Tensor& logits, const Tensor& targets, double normalizer,
                     nn::Saved& saved) override {
        passes_.push_back(saved.pass());
        return inner_->forward(logits, targets, normalizer, saved);
      }
      Tensor backward(nn::Saved& saved) override {
        passes_.push_back(saved.pass());
        return inner_->backward(saved);
      }

     private:
      std::unique_ptr<nn::LossLayer> inner_;
      std::vector<nn::Pass>& passes_;
    };
    return std::make_unique<Recorder>(inner().loss(context), passes);
  }

  std::vector<nn::Pass> passes;
};

TEST_F(RunSchedule, ActivationsKnowTheirPass) {
  micro_batches[1].weight = 0;
  PassRecorder recorder(dense);
  nn::Model begin = make({.layers = {0, 1}, .has_head = false}, recorder);
  nn::Model end = make({.layers = {1, 3}, .has_embedding = false}, recorder);
  OwnLinks links;
  run("F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1", {&begin, &end}, &links);
  ASSERT_EQ(recorder.passes.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(recorder.passes[i].step, kStep);
    EXPECT_EQ(recorder.passes[i].micro_batch, i % 2);
    EXPECT_EQ(recorder.passes[i].chunk, 1U);
    EXPECT_EQ(recorder.passes[i].token_weight, i % 2 == 0 ? 1.0 : 0.0);
    EXPECT_FALSE(recorder.passes[i].recomputes);
  }
}

/// Writes down what it is told, and the updates among it.
class Diary : public StepObserver {
 public:
  explicit Diary(std::vector<std::string>& lines) : lines_(lines) {}
  void action_begins(const Action& action) override { lines_.push_back("+" + action.str()); }
  void action_ends(const Action& action) override { lines_.push_back("-" + action.str()); }

 private:
  std::vector<std::string>& lines_;
};

TEST_F(RunSchedule, ObserversAreToldOfEachActionAndMakeTheUpdates) {
  nn::Model model = make();
  std::vector<nn::Model*> chunks = {&model};
  std::vector<std::string> lines;
  std::vector<std::unique_ptr<StepObserver>> observers;
  observers.push_back(std::make_unique<Diary>(lines));
  const StepSchedule actions = schedule_of("F0 BW0 U0 F1 B1 W1 U1");
  run_schedule({
      .chunks = chunks,
      .schedule = actions,
      .micro_batches = micro_batches,
      .share = sampler,
      .step = kStep,
      .observers = observers,
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"+F0", "-F0", "+BW0", "-BW0", "+U0", "-U0", "+F1",
                                             "-F1", "+B1", "-B1", "+W1", "-W1", "+U1", "-U1"}));
}

/// Links that fail when a gradient is asked for, and know their place.
class FailingLinks : public OwnLinks {
 public:
  Tensor receive_gradient(const Action&) override { throw NumericError("its own words"); }
  std::string place(const Action& action) const override { return "at home, " + action.str(); }
};

TEST_F(RunSchedule, AnErrorSaysWhereItHappened) {
  nn::Model begin = make({.layers = {0, 1}, .has_head = false}, dense);
  nn::Model end = make({.layers = {1, 3}, .has_embedding = false}, dense);
  FailingLinks links;
  EXPECT_EQ(test::message_of<NumericError>([&] {
              run("F0 F0.1 BW0.1 BW0", {&begin, &end}, &links);
            }),
            "its own words [at home, BW0]");
}

TEST_F(RunSchedule, RefusesPassesWithoutWhatTheyNeed) {
  nn::Model model = make();
  const auto refusal = [&](const char* schedule) {
    return test::message_of<InternalError>([&] { run(schedule, {&model}); });
  };
  EXPECT_THAT(refusal("F0 BW1"), HasSubstr("BW1 comes before its forward pass"));
  EXPECT_THAT(refusal("F0 BW0 BW0"), HasSubstr("BW0 comes before its forward pass"));
  EXPECT_THAT(refusal("W0"), HasSubstr("W0 comes before its forward pass"));
  EXPECT_THAT(refusal("F0 F0"), HasSubstr("a micro-batch passes a chunk once"));
}

TEST(StepSchedules, AreCompleteWhenEverythingPassesForwardAndBackwardOnce) {
  expect_complete({}, 0, 1);
  for (const char* schedule :
       {"F0 BW0 F1 BW1", "F0 F1 BW0 BW1", "F1 F0 B0 B1 W1 W0", "F0 B0 F1 W0 BW1"}) {
    EXPECT_NO_THROW(expect_complete(schedule_of(schedule), 2, 1)) << schedule;
  }
  EXPECT_NO_THROW(expect_complete(schedule_of("F0 F0.1 BW0.1 B0 W0"), 1, 2));
  EXPECT_NO_THROW(expect_complete(schedule_of("F0 F1 BW0 U0 B1 W1 U1"), 2, 1));
}

TEST(StepSchedules, NameWhatIsMissingOutOfOrderOrThereTwice) {
  const struct {
    const char* schedule;
    std::size_t micro_batches;
    std::size_t chunks;
    const char* message;
  } rows[] = {
      {"F0 BW0", 2, 1, "ends before micro-batch 1 has passed chunk 0"},
      {"F0 F1 BW0", 2, 1, "ends before micro-batch 1 has passed chunk 0"},
      {"F0 B0", 1, 1, "ends before micro-batch 0 has passed chunk 0"},
      {"F0 F0.1 BW0", 1, 2, "ends before micro-batch 0 has passed chunk 1"},
      {"BW0 F0", 1, 1, "has BW0 twice, or before what must come first"},
      {"F0 F0 BW0", 1, 1, "has F0 twice"},
      {"F0 BW0 BW0", 1, 1, "has BW0 twice"},
      {"F0 W0 B0", 1, 1, "has W0 twice, or before what must come first"},
      {"F0 B0 BW0", 1, 1, "has BW0 twice"},
      {"F0 B0 W0 W0", 1, 1, "has W0 twice"},
      {"F0 U0 BW0", 1, 1, "has U0 twice, or before what must come first"},
      {"F0 BW0 U0 U0", 1, 1, "has U0 twice"},
      {"F0 BW0 U0 F1 BW1", 2, 1, "ends before micro-batch 1 has passed chunk 0 and updated it"},
      {"F0 BW0 F1", 1, 1, "has F1, but there are 1 micro-batches and 1 chunks"},
      {"F0 F0.1", 1, 1, "has F0.1, but there are 1 micro-batches and 1 chunks"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(test::message_of<InternalError>([&] {
                  expect_complete(schedule_of(row.schedule), row.micro_batches, row.chunks);
                }),
                HasSubstr(row.message))
        << row.schedule;
  }
}

}  // namespace
}  // namespace ultra::train
