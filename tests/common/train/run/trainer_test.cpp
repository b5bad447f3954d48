// Covers: common/train/run/divergence.hpp

#include "common/train/run/trainer.hpp"

#include <array>
#include <csignal>

#include "common/base/interrupt.hpp"
#include "common/optim/schedule.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/run/divergence.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

using test::losses_of;

/// Entropy of the text's bytes in nats: the best loss of a model that knows frequencies only.
double byte_entropy(const std::string& text) {
  std::array<double, 256> counts{};
  for (const char c : text) counts[static_cast<unsigned char>(c)] += 1.0;
  double entropy = 0.0;
  for (const double count : counts) {
    const double p = count / static_cast<double>(text.size());
    if (p > 0.0) entropy -= p * std::log(p);
  }
  return entropy;
}

TEST(Trainer, TheLossFallsBelowWhatByteFrequenciesExplain) {
  TrainOptions options = test::short_run();
  options.model = {.hidden_size = 48,
                   .num_layers = 2,
                   .num_heads = 4,
                   .num_kv_heads = 2,
                   .ffn_hidden_size = 96,
                   .max_seq_len = 32};
  options.global_batch = 8;
  options.micro_batch = 8;
  options.steps = 120;
  options.warmup = 10;
  options.learning_rate = 1e-2;
  const std::vector<double> losses = losses_of(test::train_quietly(options));
  ASSERT_EQ(losses.size(), 120U);
  EXPECT_NEAR(losses.front(), std::log(256.0), 0.1) << "small weights know nothing: ln(vocabulary)";
  double last_ten = 0.0;
  for (std::size_t i = losses.size() - 10; i < losses.size(); ++i) last_ten += losses[i] / 10;
  EXPECT_LT(last_ten, byte_entropy(test::read_file(test::kText)));
}

TEST(Trainer, TheSameSeedIsTheSameRunAndAnotherIsNot) {
  TrainOptions options = test::short_run();
  const std::vector<double> losses = losses_of(test::train_quietly(options));
  EXPECT_EQ(losses_of(test::train_quietly(options)), losses) << "bitwise";
  options.seed = 2;
  EXPECT_NE(losses_of(test::train_quietly(options)), losses);
}

TEST(Trainer, ReportsEveryStepWithItsLearningRate) {
  const TrainOptions options = test::short_run();
  const TrainResult result = test::train_quietly(options);
  const optim::LearningRateSchedule schedule{
      .peak = options.learning_rate, .warmup_steps = options.warmup, .total_steps = options.steps};
  ASSERT_EQ(result.steps.size(), options.steps);
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    EXPECT_EQ(result.steps[i].step, i + 1);
    EXPECT_EQ(result.steps[i].learning_rate, schedule.at(i + 1));
    EXPECT_GT(result.steps[i].grad_norm, 0.0);
    EXPECT_GT(result.steps[i].tokens_per_second, 0.0);
  }
  EXPECT_GT(result.seconds, 0.0);
  const RankSeconds& seconds = result.ranks.at(0).seconds;
  EXPECT_DOUBLE_EQ(seconds.compute, seconds.forward_backward + seconds.optimizer);
  EXPECT_GT(seconds.compute, 0.0);
  EXPECT_LE(seconds.compute, seconds.total);
  EXPECT_LE(seconds.total, result.seconds);
}

TEST(Trainer, ARunsProductsAreWhatItAskedForWhateverAnotherOfTheProcessDid) {
  TrainOptions options = test::short_run();
  options.device = DeviceKind::kEmulated;
  options.steps = 1;
  std::vector<MatmulLibrary> libraries;
  const auto watch = test::before_each_step([&](const StepPlan&, const ModelScope& scope) {
    libraries.push_back(scope.context.device.matmul_library());
  });
  for (const char* matmul : {"", "ours", "tree", ""}) {
    options.matmul = matmul;
    static_cast<void>(test::train_quietly(options, watch));
  }
  EXPECT_EQ(libraries, (std::vector{MatmulLibrary::kAny, MatmulLibrary::kOurs,
                                    MatmulLibrary::kTrees, MatmulLibrary::kAny}));
}

TEST(Trainer, IntroducesTheRunAndShowsItsProgress) {
  std::string printed;
  run_ranks(1, [&](Communicator& world) {
    printed = test::printed_by([&] {
      const auto setup = test::setup_of(test::short_run(), 1, list_of(test::plain_training()));
      static_cast<void>(train_with(setup, world));
    });
  });
  // V h twice, per block 2 h^2 + 2 h kv + 3 h f + 2 h, and the last norm, with h 24, kv 12, f 40.
  const std::size_t parameters = 2 * 256 * 24 + 2 * (2 * 576 + 2 * 288 + 3 * 960 + 48) + 24;
  ASSERT_EQ(parameters, 21'624U);
  EXPECT_THAT(printed, AllOf(HasSubstr("21,624 parameters in f32"), HasSubstr(test::kText),
                             HasSubstr("step     1/5"), HasSubstr("step     5/5")));
}

TEST(Trainer, ChecksTheOptionsFirst) {
  TrainOptions options = test::short_run();
  options.micro_batch = 3;
  options.data = "nowhere";
  EXPECT_THAT(
      test::message_of<ConfigError>([&] { static_cast<void>(test::train_quietly(options)); }),
      HasSubstr("4 % 3 = 1"));
  options = test::short_run();
  options.device = DeviceKind::kCuda;
  EXPECT_THAT(
      test::message_of<ConfigError>([&] { static_cast<void>(test::train_quietly(options)); }),
      HasSubstr("use --device cpu"));
}

class TrainerStops : public ::testing::Test {
 protected:
  TrainerStops() {
    options.metrics = folder.path("m.jsonl");
    options.trace = folder.path("t.json");
  }

  test::TemporaryFolder folder;
  TrainOptions options = test::short_run();
};

TEST_F(TrainerStops, WhenASignalComesAndLeavesNoFile) {
  std::size_t steps = 0;
  const auto raise_in_the_second = [&](const StepPlan& plan, const ModelScope&) {
    steps = plan.step;
    if (steps == 2) std::raise(SIGTERM);
  };
  const InterruptGuard guard;
  EXPECT_THROW(
      static_cast<void>(test::train_quietly(options, test::before_each_step(raise_in_the_second))),
      Interrupted);
  EXPECT_EQ(steps, 2U) << "the step under way ends, the next does not begin";
  EXPECT_THAT(folder.names(), IsEmpty());
}

/// 40 bytes have 24 different sequences of 16 tokens and what follows each: 6 batches of 4.
TEST_F(TrainerStops, BeforeAValidationOfMoreThanItsText) {
  const test::TemporaryFolder texts;
  options.steps = 1;
  const auto validate = [&](std::size_t bytes, std::size_t batches) {
    options.val_data = texts.write("v.txt", std::string(bytes, 'v'));
    options.val_batches = batches;
    static_cast<void>(test::train_quietly(options));
  };
  for (const std::size_t batches : {7UL, 100'000'000'000UL}) {
    EXPECT_THAT(test::message_of<ConfigError>([&] { validate(40, batches); }),
                AllOf(HasSubstr(fmt::format("--val-batches {} draws more", batches)),
                      HasSubstr("v.txt"), HasSubstr("24 different sequences of 16 tokens"),
                      HasSubstr("Give --val-batches 6 or less")));
    EXPECT_THAT(folder.names(), IsEmpty());
  }
  EXPECT_NO_THROW(validate(40, 6));
  EXPECT_NO_THROW(validate(17, TrainOptions().val_batches)) << "nobody has asked for so many";
}

TEST_F(TrainerStops, WhenItDoesNotFitIntoTheDeviceMemoryAndLeavesNoFile) {
  const TrainResult unlimited = test::train_quietly(test::short_run());
  const std::size_t needed = unlimited.ranks.at(0).memory.peak_total().bytes;
  const auto refusal_with = [&](std::size_t bytes) {
    options.device_memory = bytes;
    const std::string message =
        test::message_of<OutOfMemory>([&] { static_cast<void>(test::train_quietly(options)); });
    EXPECT_THAT(folder.names(), IsEmpty());
    return message;
  };
  EXPECT_THAT(refusal_with(0), HasSubstr("more for other do not fit into 0 B"));
  EXPECT_THAT(refusal_with(unlimited.parameters * 4), HasSubstr("more for parameters"))
      << "the positions' table takes some of it";
  EXPECT_THAT(refusal_with(needed - 1),
              AllOf(HasSubstr("are in use (parameters"), HasSubstr("raise --device-memory")));
  options.device_memory = needed;
  EXPECT_EQ(losses_of(test::train_quietly(options)), losses_of(unlimited));
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("m.jsonl", "t.json"));
}

std::string message_for(double value) {
  TrainOptions options;
  options.learning_rate = 0.5;
  options.warmup = 7;
  options.clip_norm = 2.0;
  return ultra::test::message_of<NumericError>(
      [&] { expect_finite("gradient norm", value, 12, options); });
}

TEST(ExpectFinite, SaysWhatWhereAndWhichFlagsMayHelp) {
  EXPECT_THAT(message_for(std::nan("")),
              AllOf(HasSubstr("the gradient norm is nan at step 12"), HasSubstr("--lr (0.5)"),
                    HasSubstr("--warmup (7)"), HasSubstr("--clip (2)")));
  EXPECT_THAT(message_for(-std::nan("")), HasSubstr("norm is nan")) << "a NaN has no sign";
  EXPECT_THAT(message_for(INFINITY), HasSubstr("norm is inf"));
  EXPECT_THAT(message_for(-INFINITY), HasSubstr("norm is -inf"));
}

}  // namespace
}  // namespace ultra::train
