// The executable 11_five_d, started as a user starts it.

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::five_d {
namespace {

using ::testing::ContainsRegex;
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;

const std::string kModel = "--dtype f64 --layers 4 --global-batch 8 --micro-batch 1 --steps 3 ";

class FiveDProgram : public ultra::test::ProgramTest {
 protected:
  FiveDProgram() : ProgramTest("11_five_d") {}
};

// What the workbook promises of the type that trains by default.
TEST_F(FiveDProgram, InF32LossesStayWithinAHundredThousandth) {
  const std::string model = "--layers 4 --global-batch 8 --micro-batch 1 --steps 20 --seq 16 ";
  const auto expected = losses_of(model);
  for (const char* flags :
       {"--dp 3", "--dp 2 --zero 3", "--dp 4 --zero 2 --hybrid-shard 2", "--tp 4 --sp on",
        "--cp 3 --cp-layout contiguous", "--cp 4 --dp 2 --cp-method all-gather",
        "--pp 2 --schedule zb-v", "--dp 2 --pp 2 --cp 2 --tp 2 --zero 1"}) {
    SCOPED_TRACE(flags);
    expect_near_losses(losses_of(model + flags), expected, 1e-5);
  }
  const std::string experts = model + "--experts 4 --expert-ffn 8 --top-k 4 ";
  expect_near_losses(losses_of(experts + "--dp 4 --tp 2 --ep 4"), losses_of(experts), 1e-5);
}

TEST_F(FiveDProgram, RanksKeepAndSendWhatIsRecorded) {
  for (const char* flags : {"--dp 2 --pp 2 --cp 2 --tp 2 --zero 3", "--dp 2 --tp 2 --pp 2",
                            "--dp 2 --pp 2 --schedule zero-bubble-h2 --zero 1", "--dp 3 --zero 2",
                            "--cp 2 --tp 2 --sp on --cp-method ulysses --kv-heads 4", ""}) {
    const std::string out = output_of(kModel + flags);
    EXPECT_THAT(out, ContainsRegex("\n +0 .* exact .* exact .* exact .* exact ")) << flags << out;
    const bool has_stages = std::string(flags).find("--pp") != std::string::npos;
    if (has_stages) {
      EXPECT_THAT(out, ContainsRegex("exact .* exact .* exact .* exact [^\n]*\\(pp 1\\)\n")) << out;
    }
    if (*flags == 0) continue;
    EXPECT_THAT(out, ContainsRegex("All ranks sent in a step:( [a-z_]+ [0-9.]+ k?M?B exact,)* "
                                   "together [^\n]* exact\\.\n"))
        << flags << out;
  }
}

TEST_F(FiveDProgram, WhatTokensChooseIsNotRecorded) {
  const std::string experts = kModel + "--experts 4 --dp 2 --pp 2 --ep 2 --zero 3 ";
  const std::string out = output_of(experts);
  EXPECT_THAT(out, ContainsRegex("exact .* exact .* exact .*\\(pp 1\\)\n"));
  EXPECT_THAT(out, HasSubstr("Which experts tokens choose is not recorded"));
  EXPECT_THAT(out, HasSubstr("Shares of the experts in the last step"));
  // Where every token uses every expert nothing hangs on what it would choose. (What routers decide
  // with stays on the host of a device.)
  EXPECT_THAT(output_of(experts + "--top-k 4 --device emulated"),
              ContainsRegex("\n +0 .* exact .* exact .* exact .* exact "));
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
