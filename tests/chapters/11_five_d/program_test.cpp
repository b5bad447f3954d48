// The executable 11_five_d, started as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/programs/program.hpp"

namespace ultra::five_d {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;

const std::string kModel = "--dtype f64 --layers 4 --global-batch 8 --micro-batch 1 --steps 3 ";

class FiveDProgram : public ultra::test::ProgramTest {
 protected:
  FiveDProgram() : ProgramTest("11_five_d") {}
};

TEST_F(FiveDProgram, AllAxesTogetherHaveTheLossesOfOneRank) {
  const std::string experts = kModel + "--experts 4 --expert-ffn 8 ";
  expect_near_losses(
      losses_of(experts + "--dp 2 --pp 2 --cp 2 --tp 2 --ep 4 --sp on --zero 3 --schedule zb-v"),
      losses_of(experts), 1e-10);
}

TEST_F(FiveDProgram, TheTableFindsItsPredictionsExact) {
  for (const char* flags : {"--dp 2 --pp 2 --cp 2 --tp 2 --zero 3", "--dp 3 --tp 2 --zero 2",
                            "--dp 2 --pp 2 --schedule zero-bubble-h2 --zero 1",
                            "--cp 2 --tp 2 --sp on --cp-method ulysses --kv-heads 4"}) {
    const std::string out = output_of(kModel + "--all-reduce ring --reduce-scatter ring " + flags);
    EXPECT_THAT(out, ContainsRegex("\n +0 .* exact .* exact .* exact .* exact\n")) << flags << out;
    EXPECT_THAT(out, ContainsRegex("together [^;]*; measured [^\n]* exact")) << flags << out;
  }
}

TEST_F(FiveDProgram, StagesWithExpertsShowTheirStatesAndTheLoads) {
  const std::string out = output_of(kModel + "--experts 4 --dp 2 --pp 2 --ep 2 --zero 3");
  EXPECT_THAT(out, ContainsRegex("\n +1 .* exact .* exact .* exact"));
  EXPECT_THAT(out, HasSubstr("Shares of the experts in the last step"));
}

TEST_F(FiveDProgram, StagesWithExpertsKeepAndSendWhatIsPredicted) {
  // Every token uses every expert, so that nothing hangs on what it would choose.
  const std::string out = output_of(
      kModel +
      "--experts 4 --top-k 4 --dp 2 --pp 2 --ep 2 --all-reduce ring --reduce-scatter ring");
  EXPECT_THAT(out, ContainsRegex("\n +1 .* exact .* exact .* exact .* exact\n")) << out;
  EXPECT_THAT(out, ContainsRegex("to the experts that were chosen and back [^;]*; measured [^\n]* "
                                 "exact"))
      << out;
  // Where tokens choose, the bytes on the way are those of their choices.
  EXPECT_THAT(output_of(kModel + "--experts 4 --dp 2 --pp 2 --ep 2 --all-reduce ring"),
              ContainsRegex("experts that were chosen and back [^;]*; measured [^\n]* exact"));
}

TEST_F(FiveDProgram, EstimatesOfExpertsKnowNoStages) {
  for (const auto& [line, pp] : {std::pair{"--estimate custom --experts 4 --pp 2", "--pp is 2"},
                                 std::pair{"--estimate mixtral-8x7b --pp 4", "--pp is 4"}}) {
    const ultra::test::ProcessResult result = run_words(line);
    EXPECT_EQ(result.exit_code, 2) << line;
    expect_parts(result.err, {"all its blocks", pp, "--plan"});
  }
}

TEST_F(FiveDProgram, PrintsWhatDoesNotGoTogether) {
  expect_parts(answer_to("--combinations"),
               {"These do not go together", "--compress", "--zero 1, 2 or 3", "owner of a shard",
                "a tied token table", "--schedule zb-v or dualpipe-v"});
}

TEST_F(FiveDProgram, PrintsTheSameAsJson) {
  expect_parts(
      answer_to("--combinations --combinations-json"),
      {"\"first\": \"--compress\"", "\"second\": \"--zero 1, 2 or 3\"", "owner of a shard"});
  refused({{"--combinations-json",
            {"--combinations-json has no meaning without --combinations. Give both."}}});
}

TEST_F(FiveDProgram, PrintsHowManyRanksItNeeds) {
  expect_ranks({{"--dp 2 --pp 2 --cp 2 --tp 2 --experts 4 --ep 4", "16"}, {"", "1"}});
}

}  // namespace
}  // namespace ultra::five_d
