// The executable 05_tensor_sequence_parallel, started as a user starts it.

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using namespace test;

const std::string kModel = "--global-batch 6 --dtype f64 ";
const std::string kFiveSteps = kModel + "--steps 5 ";

class SplitProgram : public ProgramTest {
 protected:
  SplitProgram() : ProgramTest("05_tensor_sequence_parallel") {}

  /// What is printed instead of training.
  [[nodiscard]] std::string shapes_of(const std::string& line) const {
    const std::string out = output_of(line);
    EXPECT_THAT(out, Not(HasSubstr("tokens/s")));
    return out;
  }
};
using BadSplitRun = SplitProgram;

// Training ----------------------------------------------------------------------------------------

TEST_F(SplitProgram, EveryLayoutHasTheLossesOfOneRank) {
  const json expected = losses_of(kModel + "--steps 5");
  for (const char* flags :
       {"--tp 2", "--tp 4 --tp-overlap none", "--tp 4 --sp on", "--tp 4 --sp on --tp-overlap ring",
        "--dp 3 --tp 2", "--ranks 6 --tp 2 --overlap none", "--dp 2 --tp 2 --sp on --zero 1",
        "--dp 2 --tp 4 --zero 2 --check-replicas 2", "--dp 2 --tp 2 --zero 3 --recompute full",
        "--dp 4 --tp 2 --zero 3 --hybrid-shard 2 --sp on",
        "--dp 2 --tp 2 --zero 3 --offload optimizer+params",
        "--dp 2 --tp 2 --zero 3 --zero++ hierarchical --node-size 2",
        "--tp 2 --sp on --recompute selective --collectives native"}) {
    SCOPED_TRACE(flags);
    expect_near_losses(losses_of(kFiveSteps + flags), expected, 1e-10);
  }
}

TEST_F(SplitProgram, TheSummaryHoldsItsFlagsAndTheWholeModelsSize) {
  const json split = summary_of("--tp 4 --sp on");
  EXPECT_EQ(split.at("parameters"), summary_of("").at("parameters"));
  const json& config = split.at("config");
  EXPECT_EQ(config.at("tp"), 4);
  EXPECT_EQ(config.at("dp"), 1);
  EXPECT_EQ(config.at("ranks"), 4);
  EXPECT_EQ(config.at("sp"), "on");
  EXPECT_EQ(config.at("tp_overlap"), "backward");
}

// Other answers -----------------------------------------------------------------------------------

TEST_F(SplitProgram, ShapesAreWrittenDownInsteadOfTraining) {
  EXPECT_THAT(shapes_of("--tp 2 --sp on --shapes compare"),
              AllOf(ContainsRegex("o_proj +exit TP +whole -> whole +h/t -> whole +h/t -> s/t"),
                    HasSubstr("tp 2 with SP")));
  expect_parts(shapes_of("--tp 2 --shapes table"), {"rows split by heads: h/t"});
  EXPECT_GT(json::parse(shapes_of("--tp 2 --shapes json")).size(), 10U);
  expect_parts(shapes_of("--shapes table"), {"whole"});
}

TEST_F(SplitProgram, SaysWhatMoreRanksWouldReachElsewhere) {
  const json rows = json::parse(
      answer_to("--model llama-1b --tp 4,8 --seq 512 --micro-batch 2 --on dgx-h100 --on-json"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.back().at("flags").at("--tp"), "8");
  EXPECT_GT(rows.back().at("seconds"), 0);
}

TEST_F(SplitProgram, PrintsHowManyRanksItNeeds) {
  expect_ranks({{"--dp 2 --tp 4", "8"}, {"--tp 2", "2"}});
}

// Bad input ---------------------------------------------------------------------------------------

TEST_F(BadSplitRun, ModelsThatCannotBeSplit) {
  refused(
      {{"--tp 3", {"--tp must divide --heads", "4 % 3 = 1"}},
       {"--tp 8", {"--tp 8 is more than --heads 4"}},
       {"--tp 2 --ffn 25", {"--tp must divide --ffn", "25 % 2 = 1"}},
       {"--tp 2 --sp on --seq 15", {"--tp must divide --seq", "15 % 2 = 1"}},
       {"--tp 3 --heads 6 --kv-heads 2 --hidden 24", {"--kv-heads", "2 % 3 = 2", "3 % 2 = 1"}}});
}

TEST_F(BadSplitRun, RanksThatDoNotFit) {
  refused({{"--dp 2 --tp 2 --ranks 3", {"--dp 2 and --tp 2: 4 ranks", "--ranks is 3"}},
           {"--ranks 3 --tp 2",
            {"3 ranks are no whole replicas of 2 ranks each (--tp 2)", "3 % 2 = 1"}},
           {"--dp 3 --tp 2 --zero 3 --hybrid-shard 2",
            {"--hybrid-shard 2", "3 ranks are not whole nodes of 2"}},
           {"--dp 5 --tp 2", {"5 replicas", "--global-batch of 4"}}});
}

TEST_F(BadSplitRun, FlagsThatDoNotGoTogether) {
  refused({{"--sp on", {"--sp on has no meaning without --tp"}},
           {"--scale-tp 2,4", {"--scale-tp", "--tp 2,4,8 --sp on --on dgx-h100"}},
           {"--tp-overlap some", {"--tp-overlap is 'some'", "none, backward or ring"}},
           {"--shapes all", {"--shapes is 'all'", "none, table, compare or json"}}});
}

}  // namespace
}  // namespace ultra::tensor_parallel
