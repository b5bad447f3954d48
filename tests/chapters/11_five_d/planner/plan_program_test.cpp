// The planner as a user starts it: --plan, and a run with the flags that it gives.

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using nlohmann::json;
using ultra::test::expect_parts;

class PlanProgram : public ultra::test::ProgramTest {
 protected:
  PlanProgram() : ProgramTest("11_five_d") {}
};

TEST_F(PlanProgram, ShowsWhatWasPublished) {
  expect_parts(answer_to("--plan-published"), {"reference rows", "median error"});
}

TEST_F(PlanProgram, ItsFlagsTrain) {
  const json plan = json::parse(
      answer_to("--plan --plan-json --plan-model custom --plan-gpus 4 --plan-batch 512 --plan-seq "
                "64 --plan-precision fp32 --plan-software workbook"));
  std::string flags = plan.at("export").at("11_five_d");
  std::ranges::replace(flags, '\\', ' ');
  std::ranges::replace(flags, '\n', ' ');
  EXPECT_EQ(losses_of(flags + " --steps 2").size(), 2U) << flags;
}

TEST_F(PlanProgram, TheTableOfTechniquesIsNowOn) {
  failed("--plan-techniques", 2, {"--plan-techniques", "--dp 8 --zero 0,1,2,3 --on dgx-h100"});
}

// By one price list, for a plan that knows what this program hides.
TEST_F(PlanProgram, IsHeldAgainstTheProgram) {
  const nlohmann::json plan = nlohmann::json::parse(
      answer_to("--plan --plan-json --plan-model llama-8b --plan-gpus 64 --plan-software workbook "
                "--plan-check 3"));
  ASSERT_EQ(plan.at("checked").size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const nlohmann::json& row = plan.at("checked").at(i);
    EXPECT_EQ(row.at("layout"), plan.at("layouts").at(i).at("layout"));
    EXPECT_NEAR(row.at("recorded_seconds").get<double>() / row.at("planned_seconds").get<double>(),
                1, 0.15)
        << row;
  }
  expect_parts(answer_to("--plan --plan-model mixtral-8x7b --plan-gpus 64 --plan-check 1"),
               {"The same layouts, recorded", "recorded", " 1 "});
}

TEST_F(PlanProgram, AnswersAboutALayout) {
  const json plan = json::parse(
      answer_to("--plan --plan-json --model llama-8b --plan-gpus 64 --tp 4 --pp 2 --zero 1 "
                "--schedule 1f1b --micro-batch 2 --recompute none --plan-without offload"));
  ASSERT_EQ(plan.at("layouts").size(), 1U) << "nothing is left to choose";
  EXPECT_EQ(plan.at("layouts").at(0).at("layout"),
            "dp 8 x pp 2 x tp 4, ZeRO-1, 1f1b, micro-batch 2, sp");
  expect_parts(answer_to("--plan --model llama-70b --plan-gpus 64 --tp 2 --pp 2,4 --plan-outermost "
                         "dp,pp"),
               {"only", "outermost dp,pp", ", stages outermost", ", replicas outermost"});
  expect_parts(answer_to("--plan --model llama-8b --plan-gpus 64 --tp 2,4 --plan-headroom 0.3"),
               {"as modern trains; only tp 2,4"});
  expect_parts(
      answer_to("--plan --model llama-8b --plan-gpus 64 --plan-tokens 1e12 --plan-price 2"),
      {"A training of 1e+12 tokens", "GPU hours", "dollars"});
  failed("--plan-price 2", 2, {"--plan-price has no meaning without --plan-tokens"});
  failed("--plan-without zb-v", 2, {"--plan-without has no meaning without --plan"});
}

TEST_F(PlanProgram, IsCheckedForItsOwnBlocksOnly) {
  const ultra::test::ProcessResult refused =
      run_words("--plan --plan-model gpt3-175b --plan-gpus 1024 --plan-check 1");
  EXPECT_EQ(refused.exit_code, 2);
  expect_parts(refused.err, {"--plan-check", "no blocks like those of gpt3-175b", "a Mixtral"});
  failed("--plan-check 2", 2, {"--plan-check", "--plan"});
}

TEST_F(PlanProgram, TwoQuestionsAreRefused) {
  failed("--plan --plan-published", 2, {"--plan", "--plan-published"});
  failed("--plan --plan-scaling", 2, {"--plan", "--plan-scaling"});
  failed("--plan-json", 2, {"--plan-json", "--plan-scaling"});
  failed("--plan --on dgx-h100", 2, {"--plan", "--on"});
}

}  // namespace
}  // namespace ultra::planner
