// The chapter's promise, through whole training runs: in every precision, however the model is dealt
// out to ranks, the ranks compute what one rank computes in that precision.
//
// Where sums are made in the same order the bits are the same. Elsewhere f32 sums differ in their last
// bits, and now and then a number of two bytes is rounded to the other side: by 2^-8 of itself in bf16,
// 2^-11 in f16. Losses and norms are means over many such numbers.
//
// Covers: chapters/10_mixed_precision/mixed_precision.hpp
// Covers: chapters/10_mixed_precision/training/scaling.hpp
// Covers: common/train/loss_scaler.hpp

#include "tests/chapters/10_mixed_precision/precision_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using namespace mixed_precision::test;
using ::testing::Eq;

/// One rounding of a loss's every term, and of a norm's, which is of fewer and more distant numbers.
struct Promise {
  double losses;
  double norms;
};
constexpr Promise kBf16{.losses = 1.0 / 256, .norms = 1.0 / 16};
constexpr Promise kF16{.losses = 1.0 / 2048, .norms = 1.0 / 64};

class PrecisionTraining : public PrecisionTest {
 protected:
  // Of few steps: what one rounds away, the next ones go on from.
  static void expect_equals_one_rank(MeshCase c, const Promise& promise) {
    c.options.steps = 3;
    on_mesh(c, [&](Communicator& world) {
      const RankRun run = c.run(world);
      const RankRun one = c.run_alone(world);
      expect_near_losses(run, one, promise.losses);
      expect_near_norms(run, one, promise.norms);
      ultra::test::expect_saved_once(run);
      expect_same_on_all(world, losses_and_norms(run.result));
    });
  }

  static void expect_bits_of_one_rank(const MeshCase& c) {
    on_mesh(c, [&](Communicator& world) { expect_same_bits(c.run(world), c.run_alone(world)); });
  }

  static void expect_bits_of(const MeshCase& c, const MeshCase& expected) {
    on_mesh(c, [&](Communicator& world) { expect_same_bits(c.run(world), expected.run(world)); });
  }

  std::string any_bf16() {
    return random.pick({"--precision bf16", "--precision bf16 --grad-dtype bf16",
                        "--precision bf16 --master-weights off",
                        "--precision bf16-pure --rounding stochastic", "--precision bf16-pure"});
  }
  std::string any() {
    return random.pick({any_bf16(), std::string("--precision fp16"),
                        std::string("--precision fp16 --grad-dtype f16 --loss-scale 1024")});
  }
};

TEST_F(PrecisionTraining, OnMeshesWithEveryStageOfZero) {
  struct Mesh {
    std::string precision;
    std::vector<Axes> axes;
    const Promise& promise;
  };
  const Mesh meshes[] = {
      {"",
       {{.dp = 2},
        {.dp = 3},
        {.dp = 8},
        {.tp = 2},
        {.cp = 2},
        {.tp = 4},
        {.dp = 2, .cp = 2, .tp = 2},
        {.dp = 2, .pp = 2, .tp = 2},
        {.dp = 2, .pp = 2, .cp = 2}},
       kBf16},
      // At the largest scale that works, one layout might overflow where another does not.
      {"--precision fp16 --loss-scale-start 1024",
       {{.dp = 2}, {.tp = 2}, {.cp = 2}, {.dp = 2, .pp = 2, .tp = 2}},
       kF16},
      // A row of weights is computed by one rank, whatever the layout.
      {"--precision bf16 --round-sums softmax",
       {{.dp = 2}, {.tp = 2}, {.dp = 2, .pp = 2, .tp = 2}},
       kBf16}};
  for (const auto& [precision, all, promise] : meshes) {
    for (const Axes& axes : all) {
      MeshCase c = draw(axes, precision.empty() ? any_bf16() : precision);
      c.more = fmt::format("--zero {} --overlap {}", random.between(0, 3),
                           random.pick({"none", "bucketed"}));
      if (axes.tp > 1) c.more += random.pick({" --sp on", " --sp off"});
      expect_equals_one_rank(c, promise);
    }
  }
}

TEST_F(PrecisionTraining, StagesSendActivationsAndChangeNoBit) {
  for (const std::size_t pp : {2U, 3U}) {
    MeshCase c = draw({.pp = pp}, any());
    c.more = fmt::format("--schedule {}", random.pick({"afab", "1f1b", "zero-bubble-h1"}));
    expect_bits_of_one_rank(c);
  }
}

TEST_F(PrecisionTraining, RecomputationChangesNoBit) {
  for (const char* mode : {"selective", "full"}) {
    MeshCase c = draw({}, any());
    c.more = fmt::format("--recompute {}", mode);
    expect_bits_of_one_rank(c);
  }
}

// A rank with one micro-batch adds nothing up before it reduces: all stages sum in the same order.
TEST_F(PrecisionTraining, ZeroHasTheBitsOfPlainDataParallelism) {
  for (const std::size_t stage : {1U, 2U, 3U}) {
    MeshCase plain = draw({.dp = random.pick({2U, 3U, 4U})}, any());
    plain.options.global_batch = plain.axes.dp * plain.micro_batch;
    plain.more = "--overlap none";
    MeshCase sharded = plain;
    sharded.more += fmt::format(" --zero {}", stage);
    expect_bits_of(sharded, plain);
  }
}

TEST_F(PrecisionTraining, ARoundedSoftmaxGoesThroughStagesAndRecomputationBitForBit) {
  const char* rounded = random.pick(
      {"--precision bf16 --round-sums norms,softmax", "--precision fp16 --round-sums softmax"});
  MeshCase staged = draw({.pp = 2}, rounded);
  staged.more = fmt::format("--schedule {}", random.pick({"afab", "1f1b", "zero-bubble-h1"}));
  expect_bits_of_one_rank(staged);
  for (const char* mode : {"selective", "full"}) {
    MeshCase recomputed = draw({}, rounded);
    recomputed.more = fmt::format("--recompute {}", mode);
    expect_bits_of_one_rank(recomputed);
  }
}

/// Muon's matrices step behind their exchange, when their masters have left the window once.
TEST_F(PrecisionTraining, OffloadedStatesChangeNoBit) {
  for (const char* optimizer : {"adamw", "muon"}) {
    for (const std::size_t stage : {1U, 3U}) {
      MeshCase kept = draw({.dp = 2}, any());
      kept.options.optimizer = optimizer;
      kept.more = fmt::format("--zero {}", stage);
      MeshCase offloaded = kept;
      offloaded.more += " --offload optimizer";
      expect_bits_of(offloaded, kept);
    }
  }
}

// Overflow -----------------------------------------------------------------------------------------

/// "loss_scale" or "skipped" of each step.
std::vector<double> figure_of(const train::TrainResult& result, const char* name) {
  std::vector<double> values;
  for (const train::StepMetrics& step : result.steps) {
    values.push_back(step.figures.at(name).at(0));
  }
  return values;
}

TEST_F(PrecisionTraining, AllRanksSkipTogetherAndTheLearningRateWaits) {
  for (const Axes& axes : {Axes{}, Axes{.dp = 2, .tp = 2}, Axes{.pp = 2}, Axes{.dp = 2}}) {
    // The first scale is too large for some gradient of f16: it comes down until it is not.
    MeshCase c = draw(axes, "--precision fp16 --loss-scale-start 16777216");
    c.options.learning_rate = 1e-2;
    c.options.warmup = 6;
    c.options.clip_norm = 1.0;
    c.options.steps = 8;
    c.model += " --loss-scale-window 2 --grad-dtype f16";
    c.more = fmt::format("--zero {}", random.between(0, 3));
    on_mesh(c, [&](Communicator& world) {
      const train::TrainResult result = c.run(world).result;
      const std::vector<double> skipped = figure_of(result, "skipped");
      const std::vector<double> scales = figure_of(result, "loss_scale");
      expect_same_on_all(world, skipped);
      std::size_t before = 0;
      std::size_t good = 0;
      for (std::size_t i = 0; i < skipped.size(); ++i) {
        EXPECT_EQ(result.steps[i].learning_rate, c.options.schedule().at(i + 1 - before));
        good = skipped[i] > 0 ? 0 : good + 1;
        if (skipped[i] > 0) ++before;
        if (i + 1 == scales.size()) break;
        double factor = skipped[i] > 0 ? 0.5 : 1.0;
        if (good == 2) {
          factor = 2;
          good = 0;
        }
        EXPECT_EQ(scales[i + 1], factor * scales[i]) << "step " << i + 1;
      }
    });
  }
}

TEST_F(PrecisionTraining, ASkippedStepChangesNothing) {
  MeshCase c = draw({.dp = 2}, "--precision fp16 --grad-dtype f16 --loss-scale 1e30");
  c.options.steps = 4;
  c.more = fmt::format("--zero {}", random.between(0, 3));
  on_mesh(c, [&](Communicator& world) {
    const RankRun run = c.run(world);
    EXPECT_THAT(figure_of(run.result, "skipped"), Each(Eq(1.0)));
    MeshCase one = c;
    one.options.steps = 1;
    EXPECT_EQ(run.weights, one.run(world).weights);
    for (const train::StepMetrics& step : run.result.steps) {
      EXPECT_EQ(step.learning_rate, c.options.schedule().at(1)) << "the first one waits";
    }
  });
}

TEST_F(PrecisionTraining, AScaleThatAlwaysOverflowsEndsTheTraining) {
  MeshCase c = draw({}, "--precision fp16 --grad-dtype f16 --loss-scale 1e30");
  c.options.steps = 60;
  c.options.model.num_layers = 1;
  on_mesh(c, [&](Communicator& world) {
    EXPECT_THROW(static_cast<void>(train::train_with(c.setup(), world)), NumericError);
  });
}

// A power of two as the scale changes no bit while nothing is too small or too large for its type.
TEST_F(PrecisionTraining, AScaledLossHasTheBitsOfTheLossInBf16) {
  MeshCase plain = draw({.dp = 2}, "--precision bf16");
  MeshCase scaled = plain;
  scaled.model += " --loss-scale 1024";
  on_mesh(plain, [&](Communicator& world) {
    const RankRun a = scaled.run(world);
    const RankRun b = plain.run(world);
    expect_same_bits(a, b);
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
