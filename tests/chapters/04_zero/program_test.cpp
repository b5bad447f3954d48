// The executable 04_zero, started as a user starts it.
//
// Covers: common/base/interrupt.hpp

#include <csignal>
#include <filesystem>

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using namespace test;

class ZeroProgram : public ProgramTest {
 protected:
  ZeroProgram() : ProgramTest("04_zero") {}

  /// The highest bytes that a rank needed.
  [[nodiscard]] static std::size_t highest_peak(const json& summary) {
    std::size_t highest = 0;
    for (const json& rank : summary.at("ranks")) {
      highest = std::max(highest, rank.at("peak_bytes").at("total").get<std::size_t>());
    }
    return highest;
  }
};
using BadZeroRun = ZeroProgram;

// Losses ------------------------------------------------------------------------------------------

TEST_F(ZeroProgram, TheSummaryHoldsItsFlags) {
  const json config =
      summary_of(
          "--dp 2 --zero 3 --shards rows --prefetch 2 --reshard-after-forward no --hybrid-shard 1")
          .at("config");
  EXPECT_EQ(config.at("zero"), 3);
  EXPECT_EQ(config.at("dp"), 2);
  EXPECT_EQ(config.at("prefetch"), 2);
  EXPECT_EQ(config.at("reshard_after_forward"), "no");
  EXPECT_EQ(config.at("shards"), "rows");
  EXPECT_EQ(config.at("hybrid_shard"), 1);
  EXPECT_EQ(config.at("reduce_scatter"), "pairwise");
  EXPECT_EQ(summary_of("--dp 2").at("config").at("zero"), 0);
}

// Memory ------------------------------------------------------------------------------------------

TEST_F(ZeroProgram, ExplainsItsMemoryAndItsCommunication) {
  const std::string base = "--steps 2 --global-batch 12 --micro-batch 1 ";
  for (const char* flags : {"--dp 1 --zero 1", "--dp 3 --zero 1", "--dp 3 --zero 2",
                            "--dp 3 --zero 3 --recompute full --recompute-every 2",
                            "--dp 3 --zero 3 --shards rows", "--dp 4 --zero 3 --hybrid-shard 2"}) {
    SCOPED_TRACE(flags);
    const std::string out = output_of(base + flags);
    EXPECT_THAT(out, ContainsRegex("\n +0 .* exact .* exact .* exact .* exact "));
    EXPECT_THAT(out, ContainsRegex("\n +04.6 .*(exact|%) .*(exact|%) .*(exact|%) +- "));
    EXPECT_THAT(out, ContainsRegex("\n +01.1 +- +- +- .* exact "));
    if (std::string(flags).starts_with("--dp 1")) continue;
    expect_parts(out, {"All ranks sent in a step:", "together", "exposed s"});
  }
  expect_parts(output_of(base + "--dp 2 --zero 3 --zero++ weights-int8"),
               {"with --zero++, no step is recorded beside it", "04.6"});
  const std::string offloaded = output_of(base + "--dp 2 --zero 1 --offload optimizer");
  expect_parts(offloaded, {"with --offload, no step", "in the host's memory", "optimizer read"});
  EXPECT_THAT(output_of("--dp 2 --zero 0"), Not(HasSubstr("04.6")));
}

/// A model that no rank can hold trains in shards, on as many ranks with as much memory each.
TEST_F(ZeroProgram, AModelThatDoesNotFitTrainsInShards) {
  const std::string large =
      "--layers 6 --hidden 48 --ffn 96 --seq 8 --steps 2 --micro-batch 1 --dp 4 ";
  const json whole = summary_of(large + "--zero 0");
  const json sharded = summary_of(large + "--zero 3");
  std::filesystem::remove(folder.path("metrics.jsonl"));
  ASSERT_LT(highest_peak(sharded) * 3 / 2, highest_peak(whole)) << "a wide margin";
  const std::string memory =
      " --device-memory " + std::to_string((highest_peak(sharded) + highest_peak(whole)) / 2) + "B";

  const auto died = failed(large + "--zero 0" + memory, 2,
                           {"out of device memory", "parameters ", "gradients ", "optimizer ",
                            "Split the model over more ranks"});
  EXPECT_THAT(died.out, Not(HasSubstr("Where the memory")));
  EXPECT_EQ(losses_of(large + "--zero 3" + memory), sharded.at("losses"));
}

TEST_F(ZeroProgram, TheTimelineNamesWhatTravels) {
  const std::string trace = folder.path("trace.json");
  static_cast<void>(output_of("--dp 2 --zero 3 --trace " + trace));
  expect_parts(read_file(trace),
               {"gather block 1", "reduce head", "gather embedding", "loss and norm"});
}

// Other answers -----------------------------------------------------------------------------------

TEST_F(ZeroProgram, PrintsTheRanksThatItsFlagsNeed) {
  expect_ranks({{"--zero 3", "1"}, {"--dp 4 --zero 3 --hybrid-shard 2", "4"}});
}

// Bytes of weights, gradients and what the optimizer keeps: 2, 4 and 12 for each parameter.
TEST_F(ZeroProgram, RecordsEveryStageElsewhere) {
  const std::string question =
      "--model llama-7b --seq 512 --dp 16 --global-batch 16 --micro-batch 1 --on dgx-h100:2 ";
  const json rows = json::parse(answer_to(question + "--zero 1,2,3 --on-json"));
  ASSERT_EQ(rows.size(), 3U);
  const double parameters = rows.at(0).at("parameters");
  EXPECT_EQ(parameters, 6'738'415'616) << "Llama-2-7B";
  for (std::size_t stage = 1; stage <= 3; ++stage) {
    const json& row = rows.at(stage - 1);
    const json& kept = row.at("memory").at(0).at("highest_bytes");
    const json& formula = row.at("formulas").at("04.6");
    const auto near = [&](const char* category, double bytes) {
      EXPECT_NEAR(formula.at(category), bytes * parameters, 1);
      EXPECT_NEAR(kept.at(category).get<double>(), bytes * parameters, 1e-3 * bytes * parameters)
          << category << ", ZeRO-" << stage;
    };
    near("parameters", stage == 3 ? 2.0 / 16 : 2);
    near("gradients", stage >= 2 ? 4.0 / 16 : 4);
    near("optimizer", 12.0 / 16);
  }
  expect_parts(answer_to(question + "--zero 3 --hybrid-shard 8"), {"by 04.6", "dp 16"});
}

TEST_F(ZeroProgram, AnswersNothingBesideACheckpoint) {
  for (const char* question : {"--op all_reduce", "--on dgx-h100:1"}) {
    const ProcessResult refused =
        run_words(std::string(question) + " --checkpoint " + folder.path("run"));
    EXPECT_EQ(refused.exit_code, 2);
    expect_parts(refused.err, {"--checkpoint has no meaning with --"});
  }
  EXPECT_THAT(folder.names(), ::testing::IsEmpty());
}

TEST_F(ZeroProgram, KeepsWhatEarlierChaptersCan) {
  expect_parts(answer_to("--simulate nodes=2,gpus=4 --simulate-sizes 1MB"), {"ring"});
  expect_parts(answer_to("--op reduce_scatter --ranks 2 --max-bytes 4KB --iterations 1"),
               {"pairwise"});
  static_cast<void>(output_of("--dp 2 --compress int8"));
  expect_parts(answer_to("--help"), {"--zero", "--recompute", "--compress", "--link"});
}

// Refused ----------------------------------------------------------------------------------------

/// That the flags are checked at all: what else they refuse is in the tests of the options.
TEST_F(BadZeroRun, FlagsThatCannotWork) {
  refused({{"--zero 4", {"--zero is '4'", "0, 1, 2 or 3"}},
           {"--dp 3 --zero 3 --hybrid-shard 2", {"3 ranks are not whole nodes of 2"}},
           {"--dp 5 --zero 2", {"5 replicas", "--global-batch of 4"}},
           {"--dp 2 --ranks 3 --zero 1", {"--dp 2", "--ranks is 3"}},
           {"--zero 3 --check-replicas 1", {"does not go together with --zero 3"}}});
}

TEST_F(BadZeroRun, TrainingThatDivergesEndsAllRanks) {
  for (const char* stage : {"1", "2", "3", "3 --zero++ weights-int8,gradients-int4"}) {
    failed(std::string("--steps 9 --lr 1e30 --clip 0 --dp 2 --zero ") + stage, 2,
           {"at step", "lower --lr"});
  }
}

// Ctrl-C, or SIGTERM, at any moment of whatever the executable does: it ends soon, says that it was
// stopped, and leaves nothing half done.

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

class InterruptedProgram : public RandomTest {
 protected:
  /// Runs for long unless it is stopped; it is, at a random moment.
  void expect_stops(const std::string& line) {
    const int signal = random.pick({SIGINT, SIGTERM});
    const auto after = std::chrono::milliseconds(random.between(0, 300));
    SCOPED_TRACE(fmt::format("signal {} after {} ms: {}", signal, after.count(), line));
    const ProcessResult result =
        interrupt_program("04_zero", words_of(line), signal, after, std::chrono::seconds(10));
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

  TemporaryFolder folder;
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
