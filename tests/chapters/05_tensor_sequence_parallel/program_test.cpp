// The executable 05_tensor_sequence_parallel, started as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/chapters/02_collectives/program_fixture.hpp"

namespace ultra::tensor_parallel {
namespace {

using collectives::test::Changes;
using collectives::test::expect_success;
using collectives::test::ProcessResult;
using collectives::test::ProgramTest;
using collectives::test::Words;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const Changes kFiveSteps = {{"--steps", "5"}, {"--global-batch", "6"}, {"--dtype", "f64"}};

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class SplitProgram : public ProgramTest {
 protected:
  SplitProgram() : ProgramTest("05_tensor_sequence_parallel") {}

  static void expect_near(const json& losses, const json& expected, double tolerance) {
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double loss = expected[i];
      EXPECT_NEAR(losses[i].get<double>(), loss, tolerance * loss) << "step " << i + 1;
    }
  }

  /// What is printed instead of training.
  [[nodiscard]] std::string answer(const Words& flags) const {
    const ProcessResult result = run({}, flags);
    expect_success(result);
    EXPECT_THAT(result.out, Not(HasSubstr("tokens/s")));
    return result.out;
  }
};
using BadSplitRun = SplitProgram;

// Training ----------------------------------------------------------------------------------------

TEST_F(SplitProgram, EveryLayoutHasTheLossesOfOneRank) {
  const json expected = summary_of(kFiveSteps).at("losses");
  for (const Words& flags :
       {Words{"--tp", "2"}, Words{"--tp", "4", "--tp-overlap", "none"},
        Words{"--tp", "4", "--sp", "on"}, Words{"--tp", "4", "--sp", "on", "--tp-overlap", "ring"},
        Words{"--dp", "3", "--tp", "2"}, Words{"--ranks", "6", "--tp", "2", "--overlap", "none"},
        Words{"--dp", "2", "--tp", "2", "--sp", "on", "--zero", "1"},
        Words{"--dp", "2", "--tp", "4", "--zero", "2", "--check-replicas", "2"},
        Words{"--dp", "2", "--tp", "2", "--zero", "3", "--recompute", "full"},
        Words{"--dp", "4", "--tp", "2", "--zero", "3", "--hybrid-shard", "2", "--sp", "on"},
        Words{"--dp", "2", "--tp", "2", "--zero", "3", "--offload", "optimizer+params"},
        Words{"--dp", "2", "--tp", "2", "--zero", "3", "--zero++", "hierarchical", "--node-size",
              "2"},
        Words{"--tp", "2", "--sp", "on", "--recompute", "selective", "--collectives", "native"}}) {
    SCOPED_TRACE(::testing::PrintToString(flags));
    const json summary = summary_of(kFiveSteps, flags);
    expect_near(summary.at("losses"), expected, 1e-10);
  }
}

TEST_F(SplitProgram, CheckpointsOfAnyLayoutGoOnInAnyOther) {
  const json expected = summary_of(kFiveSteps).at("losses");
  const std::vector<Words> layouts = {
      {},
      {"--tp", "4"},
      {"--tp", "2", "--sp", "on"},
      {"--dp", "2", "--tp", "4", "--sp", "on", "--zero", "3"},
      {"--dp", "3", "--zero", "2"},
      {"--dp", "2", "--tp", "2", "--zero", "1", "--offload", "optimizer"}};
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    const std::string saved = folder.path("from-" + std::to_string(from));
    Changes until_three = kFiveSteps;
    until_three["--steps"] = "3";
    static_cast<void>(summary_of(until_three, joined(layouts[from], {"--checkpoint", saved})));
    for (const std::size_t to :
         {std::size_t{0}, (from + 1) % layouts.size(), (from + 3) % layouts.size()}) {
      SCOPED_TRACE(::testing::PrintToString(layouts[from]) + " to " +
                   ::testing::PrintToString(layouts[to]));
      expect_near(summary_of(kFiveSteps, joined(layouts[to], {"--resume", saved})).at("losses"),
                  expected, 1e-10);
    }
  }
}

TEST_F(SplitProgram, TheSummaryHoldsItsFlagsAndTheWholeModelsSize) {
  const json one = summary_of({});
  const json split = summary_of({}, {"--tp", "4", "--sp", "on"});
  EXPECT_EQ(split.at("parameters"), one.at("parameters"));
  EXPECT_EQ(split.at("config").at("tp"), 4);
  EXPECT_EQ(split.at("config").at("dp"), 1);
  EXPECT_EQ(split.at("config").at("ranks"), 4);
  EXPECT_EQ(split.at("config").at("sp"), "on");
  EXPECT_EQ(split.at("config").at("tp_overlap"), "backward");
}

TEST_F(SplitProgram, TheTableFindsItsPredictionsExact) {
  const ProcessResult result = run({}, {"--tp", "2", "--sp", "on"});
  expect_success(result);
  for (const char* category : {"parameters", "gradients", "optimizer", "activations"}) {
    EXPECT_THAT(result.out, ContainsRegex(std::string(category) + " [^\n]*exact"));
  }
  EXPECT_THAT(result.out, HasSubstr("6 L + 3 = 15 all-gathers and 4 L + 2 = 10 reduce-scatters"));
  EXPECT_THAT(run({}, {"--tp", "2"}).out, HasSubstr("4 L + 2 = 10 all-reduces"));
}

// Other answers -----------------------------------------------------------------------------------

TEST_F(SplitProgram, ShapesAreWrittenDownInsteadOfTraining) {
  EXPECT_THAT(answer({"--tp", "2", "--sp", "on", "--shapes", "compare"}),
              AllOf(ContainsRegex("o_proj +exit TP +whole -> whole +h/t -> whole +h/t -> s/t"),
                    HasSubstr("tp 2 with SP")));
  EXPECT_THAT(answer({"--tp", "2", "--shapes", "table"}), HasSubstr("rows split by heads: h/t"));
  EXPECT_GT(json::parse(answer({"--tp", "2", "--shapes", "json"})).size(), 10U);
  EXPECT_THAT(answer({"--shapes", "table"}), HasSubstr("whole"));
}

TEST_F(SplitProgram, EstimatesKnowTp) {
  const Words words = {"--estimate", "llama-8b", "--tp", "8", "--sp", "on", "--json"};
  const ProcessResult result = run_words(words);
  expect_success(result);
  EXPECT_EQ(json::parse(result.out).at("tp"), 8);
  const ProcessResult zero = run_words({"--estimate", "7.5B", "--dp", "64"});
  expect_success(zero);
  EXPECT_THAT(zero.out, HasSubstr("ZeRO-3")) << "chapter 04's answer without --tp";
}

TEST_F(SplitProgram, ThroughputOverTpIsPredicted) {
  const ProcessResult result = run_words({"--scale-tp", "4,8,16"});
  expect_success(result);
  EXPECT_THAT(result.out, HasSubstr("tokens/s/GPU"));
}

TEST_F(SplitProgram, PrintsHowManyRanksItNeeds) {
  EXPECT_EQ(run({}, {"--dp", "2", "--tp", "4", "--print-ranks"}).out, "8\n");
  EXPECT_EQ(run({}, {"--tp", "2", "--print-ranks"}).out, "2\n") << "one replica";
}

// Bad input ---------------------------------------------------------------------------------------

TEST_F(BadSplitRun, ModelsThatCannotBeSplit) {
  refused({}, {"--tp must divide --heads", "4 % 3 = 1"}, {"--tp", "3"});
  refused({}, {"--tp 8 is more than --heads 4"}, {"--tp", "8"});
  refused({{"--ffn", "25"}}, {"--tp must divide --ffn", "25 % 2 = 1"}, {"--tp", "2"});
  refused({{"--seq", "15"}}, {"--tp must divide --seq", "15 % 2 = 1"}, {"--tp", "2", "--sp", "on"});
  refused({{"--heads", "6"}, {"--kv-heads", "2"}, {"--hidden", "24"}},
          {"--kv-heads", "2 % 3 = 2", "3 % 2 = 1"}, {"--tp", "3"});
}

TEST_F(BadSplitRun, RanksThatDoNotFit) {
  refused({}, {"--dp 2 and --tp 2: 4 ranks", "--ranks is 3"},
          {"--dp", "2", "--tp", "2", "--ranks", "3"});
  refused({}, {"3 ranks are no whole replicas of 2 ranks each (--tp 2)", "3 % 2 = 1"},
          {"--ranks", "3", "--tp", "2"});
  refused({}, {"--hybrid-shard 2", "3 ranks are not whole nodes of 2"},
          {"--dp", "3", "--tp", "2", "--zero", "3", "--hybrid-shard", "2"});
  refused({}, {"5 replicas", "--global-batch of 4"}, {"--dp", "5", "--tp", "2"});
}

TEST_F(BadSplitRun, FlagsThatDoNotGoTogether) {
  refused({}, {"--sp on has no meaning without --tp"}, {"--sp", "on"});
  refused({}, {"--tp-overlap ring needs --sp on"}, {"--tp", "2", "--tp-overlap", "ring"});
  refused({}, {"--tp-overlap is 'some'", "none, backward or ring"}, {"--tp-overlap", "some"});
  refused({}, {"--tp 2 does not go together with --sync parameter-server"},
          {"--tp", "2", "--sync", "parameter-server", "--servers", "1"});
  refused({}, {"--shapes is 'all'", "none, table, compare or json"}, {"--shapes", "all"});
}

}  // namespace
}  // namespace ultra::tensor_parallel
