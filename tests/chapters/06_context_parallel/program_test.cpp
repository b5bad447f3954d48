// The executable 06_context_parallel, started as a user starts it.

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel {
namespace {

using nlohmann::json;
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;

const std::string kModel = "--global-batch 6 --dtype f64 --seq 17 ";
const std::string kFiveSteps = kModel + "--steps 5 ";

class ContextProgram : public ultra::test::ProgramTest {
 protected:
  ContextProgram() : ProgramTest("06_context_parallel") {}
};
using BadContextRun = ContextProgram;

// Training ----------------------------------------------------------------------------------------

TEST_F(ContextProgram, EveryLayoutHasTheLossesOfOneRank) {
  for (const std::string documents : {"", "--doc-length 5 "}) {
    const json expected = losses_of(kFiveSteps + documents);
    for (const char* flags :
         {"--cp 4", "--cp 3 --cp-layout contiguous", "--cp 2 --cp-method all-gather",
          "--cp 2 --cp-method ulysses", "--cp 4 --cp-method ulysses+ring --cp-ulysses 2",
          "--dp 3 --cp 2", "--dp 2 --cp 2 --tp 2 --zero 1 --overlap none",
          "--dp 2 --cp 2 --zero 2 --check-replicas 2", "--cp 2 --tp 4 --recompute selective",
          "--dp 2 --cp 2 --zero 3 --recompute full --prefetch 2",
          "--dp 2 --cp 4 --zero 3 --hybrid-shard 4",
          "--dp 2 --cp 2 --zero 3 --offload optimizer+params",
          "--dp 2 --cp 2 --zero 3 --zero++ hierarchical --node-size 2",
          "--cp 3 --collectives native --cp-method all-gather"}) {
      SCOPED_TRACE(flags);
      expect_near_losses(losses_of(kFiveSteps + documents + flags), expected, 1e-10);
    }
  }
}

// However long documents are on average, a sequence without a border is one; with borders everywhere
// each token sees itself alone.
TEST_F(ContextProgram, DocumentsOfAnyLength) {
  const std::string longest = "--doc-length 18446744073709551615 ";
  EXPECT_EQ(losses_of(kFiveSteps + longest), losses_of(kFiveSteps + "--doc-length 0"));
  EXPECT_EQ(losses_of(kFiveSteps + longest + "--cp 2"), losses_of(kFiveSteps + "--cp 2"));
  expect_near_losses(losses_of(kFiveSteps + "--doc-length 1 --cp 4"),
                     losses_of(kFiveSteps + "--doc-length 1"), 1e-10);
}

TEST_F(ContextProgram, ATrainingWithOtherDocumentsIsAnotherTraining) {
  const std::string saved = folder.path("saved");
  static_cast<void>(summary_of(kModel + "--doc-length 6 --steps 1 --checkpoint " + saved));
  const auto result = run(kModel + "--steps 2 --resume " + saved);
  EXPECT_EQ(result.exit_code, 2);
  expect_parts(result.err, {"--doc-length 6", "this run has 0"});
}

TEST_F(ContextProgram, TheSummaryHoldsItsFlagsAndWhatRanksCounted) {
  const json split = summary_of("--cp 4 --doc-length 7");
  EXPECT_EQ(split.at("parameters"), summary_of("").at("parameters"));
  const json& config = split.at("config");
  EXPECT_EQ(config.at("cp"), 4);
  EXPECT_EQ(config.at("dp"), 1);
  EXPECT_EQ(config.at("ranks"), 4);
  EXPECT_EQ(config.at("cp_layout"), "zigzag");
  EXPECT_EQ(config.at("cp_method"), "ring");
  EXPECT_EQ(config.at("cp_ulysses"), 1);
  EXPECT_EQ(config.at("doc_length"), 7);
  for (const json& rank : split.at("ranks")) {
    EXPECT_GT(rank.at("counters").at("attention_flops"), 0);
    EXPECT_GT(rank.at("counters").at("attention_blocks"), 0);
  }
}

TEST_F(ContextProgram, TheTableSaysWhatPaddingCosts) {
  expect_parts(output_of("--cp 4 --seq 15"), {"1 tokens of padding", "busiest rank"});
}

// Other answers -----------------------------------------------------------------------------------

// Bad input ---------------------------------------------------------------------------------------

TEST_F(BadContextRun, SequencesAndHeadsThatCannotBeSplit) {
  refused({{"--cp 4 --seq 7", {"--seq 7 is less than the 8 chunks", "--cp 4"}},
           {"--cp 4 --cp-method ulysses", {"must divide --kv-heads", "2 % 4 = 2"}},
           {"--cp 2 --tp 2 --cp-method ulysses", {"--kv-heads", "2 / 2 heads per --tp rank"}}});
}

TEST_F(BadContextRun, RecordsOfWhatCouldNotTrain) {
  const auto expect_refused = [&](const std::string& line, const std::string& part) {
    const ultra::test::ProcessResult result = run_words(line);
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  expect_refused("--model llama-8b --cp 16 --cp-method ulysses --seq 4096 --on dgx-h100",
                 "must divide --kv-heads: 8 % 16 = 8");
  expect_refused("--model llama-8b --cp 2 --zero 3 --hybrid-shard 3 --on dgx-h100",
                 "2 ranks are not whole nodes of 3");
}

TEST_F(BadContextRun, TheTableOfMethodsIsNowOn) {
  refused({{"--cp-table 2,4", {"--cp-table", "--cp 2,4,8 --cp-method ring,all-gather --on"}}});
}

TEST_F(BadContextRun, FlagsThatDoNotGoTogether) {
  refused({{"--doc-length -1", {"--doc-length is -1", "a whole number"}},
           {"--cp-method ring", {"--cp-method has no meaning without --cp"}},
           {"--cp-method some --cp 2", {"--cp-method is 'some'", "ring, all-gather"}}});
}

}  // namespace
}  // namespace ultra::context_parallel
