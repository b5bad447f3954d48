// Ctrl-C, or SIGTERM, at any moment of whatever the executable does: it ends soon, says that it was
// stopped, and leaves nothing half done.
//
// Covers: common/base/interrupt.hpp

#include <csignal>

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using ultra::test::words_of;

/// A model of some hundred million parameters: to draw its weights takes many seconds.
const std::string kLarge =
    "--layers 8 --hidden 2048 --heads 16 --kv-heads 16 --ffn 4096 --seq 8 --steps 1 ";
/// A model of small layers, and more of them than are made within a second.
const std::string kManyLayers =
    "--layers 20000 --hidden 16 --heads 4 --kv-heads 2 --ffn 12 --seq 8 --steps 1 "
    "--micro-batch 1 --global-batch 2 ";
/// A model whose single step takes many seconds.
const std::string kLongStep =
    "--layers 4 --hidden 128 --heads 4 --kv-heads 4 --ffn 512 --seq 256 --steps 1 "
    "--micro-batch 4 --global-batch 2000 ";
const std::string kShortSteps =
    "--layers 2 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 16 --micro-batch 2 "
    "--global-batch 4 --steps 1000000 ";

class InterruptedProgram : public ultra::test::RandomTest {
 protected:
  /// Runs for long unless it is stopped; it is, at a random moment.
  void expect_stops(const std::string& line) {
    const int signal = random.pick({SIGINT, SIGTERM});
    const auto after = std::chrono::milliseconds(random.between(0, 300));
    SCOPED_TRACE(fmt::format("signal {} after {} ms: {}", signal, after.count(), line));
    const ultra::test::ProcessResult result = ultra::test::interrupt_program(
        "04_zero", words_of(line), signal, after, std::chrono::seconds(10));
    EXPECT_EQ(result.exit_code, 130) << "124: it had to be killed";
    EXPECT_THAT(result.err, ::testing::StartsWith("error: stopped "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(folder.names(), ::testing::IsEmpty()) << "no partial output";
  }

  /// The same of a training, which would write files.
  void expect_training_stops(const std::string& line) {
    expect_stops(line + " --metrics " + folder.path("metrics.jsonl") + " --trace " +
                 folder.path("trace.json"));
  }

  ultra::test::TemporaryFolder folder;
};

TEST_F(InterruptedProgram, WhileItMeasures) {
  expect_stops("--op all_reduce --iterations 1000000");
  expect_stops("--op all_to_all --iterations 1000000 --ranks 3");
}

TEST_F(InterruptedProgram, WhileItSimulates) {
  expect_stops("--simulate h100,nodes=512 --simulate-op all_to_all");
}

TEST_F(InterruptedProgram, WhileItRecordsManySteps) {
  expect_stops(
      "--model llama-8b --dp 1,2,4,8,16,32 --zero 0,1,2,3 --seq 4096 --global-batch 1024 "
      "--micro-batch 1 --on dgx-h100");
}

TEST_F(InterruptedProgram, WhileItDrawsTheWeightsOfALargeModel) {
  expect_training_stops(kLarge);
  expect_training_stops(kLarge + "--zero 3 --dp 2");
}

TEST_F(InterruptedProgram, WhileItMakesAModelOfManyLayers) {
  expect_training_stops(kManyLayers);
  expect_training_stops(kManyLayers + "--zero 3 --dp 2");
}

TEST_F(InterruptedProgram, InTheMiddleOfALongStep) {
  expect_training_stops(kLongStep);
  expect_training_stops(kLongStep + "--dp 2 --zero 2");
}

TEST_F(InterruptedProgram, BetweenShortSteps) {
  expect_training_stops(kShortSteps);
  expect_training_stops(kShortSteps + "--dp 3 --zero 3");
}

}  // namespace
}  // namespace ultra::zero
