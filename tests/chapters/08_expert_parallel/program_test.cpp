// The executable 08_expert_parallel, started as a user starts it.

#include <fstream>

#include "common/checkpoint/checksum.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;

const std::string kModel =
    "--global-batch 8 --micro-batch 2 --dtype f64 --seq 17 --layers 2 --hidden 32 --ffn 48 "
    "--experts 8 --expert-ffn 16 ";
const std::string kFiveSteps = kModel + "--steps 5 ";

class ExpertProgram : public ultra::test::ProgramTest {
 protected:
  ExpertProgram() : ProgramTest("08_expert_parallel") {}
};
using BadExpertRun = ExpertProgram;

// Training ----------------------------------------------------------------------------------------

TEST_F(ExpertProgram, EveryLayoutHasTheLossesOfOneRank) {
  for (const std::string moe :
       {"--shared-experts 1 ", "--top-k 3 --router sigmoid --balance bias --z-loss 1e-2 ",
        "--top-k 1 --capacity-factor 0.9 "}) {
    const json expected = losses_of(kFiveSteps + moe);
    for (const char* flags :
         {"--dp 2 --ep 2", "--dp 4 --ep 4 --zero 1", "--dp 4 --ep 2 --zero 3 --prefetch 2",
          "--dp 2 --cp 2 --ep 4 --zero 2", "--dp 2 --cp 2 --tp 2 --ep 2 --recompute full",
          "--cp 3 --ep 1", "--dp 2 --ep 2 --recompute selective",
          "--dp 2 --ep 2 --collectives native", "--dp 8 --ep 8 --micro-batch 1"}) {
      SCOPED_TRACE(moe + flags);
      expect_near_losses(losses_of(kFiveSteps + moe + flags), expected, 1e-10);
    }
  }
}

TEST_F(ExpertProgram, WithoutExpertsItIsThePreviousChapter) {
  const std::string dense = "--global-batch 8 --dtype f64 --seq 17 --steps 3 ";
  expect_near_losses(losses_of(dense + "--dp 2 --cp 2"), losses_of(dense), 1e-10);
  EXPECT_EQ(losses_of(dense + "--experts 0"), losses_of(dense));
}

TEST_F(ExpertProgram, TheSummaryHoldsItsFlagsAndTheMetricsTheLoads) {
  const std::string file = folder.path("metrics");
  static_cast<void>(output_of(kModel + "--dp 2 --ep 2 --steps 3 --metrics " + file));
  const std::vector<json> events = ultra::test::events_of(file);
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t step = 0; step < 3; ++step) {
    for (const char* layer : {"expert_load.0", "expert_load.1"}) {
      double sum = 0;
      for (const json& share : events[step].at(layer)) sum += share.get<double>();
      EXPECT_EQ(events[step].at(layer).size(), 8U);
      EXPECT_NEAR(sum, 1.0, 1e-12);
    }
    EXPECT_EQ(events[step].at("dropped_share"), (json{0.0, 0.0}));
  }
  const json& config = events[3].at("config");
  EXPECT_EQ(config.at("experts"), 8);
  EXPECT_EQ(config.at("top_k"), 2);
  EXPECT_EQ(config.at("ep"), 2);
  EXPECT_EQ(config.at("balance"), "aux");
  EXPECT_EQ(config.at("capacity_factor"), "dropless");
  EXPECT_EQ(config.at("ranks"), 2);
}

TEST_F(ExpertProgram, OfManyExpertsTheTableShowsTheExtremes) {
  const std::string out = output_of(
      "--global-batch 4 --seq 16 --layers 1 --hidden 16 --steps 1 --experts 64 --expert-ffn 8");
  EXPECT_THAT(out, ContainsRegex("layer 0 +from [0-9.]+ to [0-9.]+ \\(expert [0-9]+\\), "
                                 "[0-9]+ of 64 without tokens"));
}

// Other answers -----------------------------------------------------------------------------------

TEST_F(ExpertProgram, PrintsHowManyRanksItNeeds) {
  expect_ranks({{"--experts 4 --dp 2 --ep 2", "2"}, {"--experts 4 --dp 2 --cp 2 --ep 4", "4"}});
}

// Bad input ---------------------------------------------------------------------------------------

TEST_F(BadExpertRun, ExpertsThatCannotBeDealtOut) {
  refused(
      {{"--experts 6 --dp 4 --ep 4", {"--ep must divide --experts", "6 % 4 = 2", "divisor of 6"}},
       {"--experts 6 --dp 2 --ep 3",
        {"--ep must divide the ranks of --dp times --cp", "2 % 3 = 2"}},
       {"--experts 4 --expert-ffn 5 --tp 2", {"--expert-ffn", "5 % 2 = 1"}},
       {"--experts 4 --dp 4 --ep 2 --zero 3 --hybrid-shard 4",
        {"--hybrid-shard 4", "2 ranks are not whole nodes of 4"}}});
}

TEST_F(BadExpertRun, ChoicesThatCannotBeMade) {
  refused({{"--experts 4 --top-k 5", {"--top-k 5 is above --experts 4"}},
           {"--experts 4 --top-k 0", {"--top-k is 0", "from 1 to 4096"}},
           {"--experts 4 --capacity-factor 0", {"--capacity-factor is 0", "above 0", "dropless"}},
           {"--experts 4 --capacity-factor -1", {"--capacity-factor is -1"}},
           {"--experts 4 --capacity-factor nan", {"--capacity-factor is nan"}},
           {"--experts 4 --capacity-factor 1e7", {"--capacity-factor is 1e7", "up to 1000000"}},
           {"--experts 4 --capacity-factor none", {"--capacity-factor is 'none'"}},
           {"--experts 4 --router top", {"--router is 'top'", "softmax or sigmoid"}},
           {"--experts 4 --balance loss", {"--balance is 'loss'", "aux, bias or none"}},
           {"--experts -1", {"--experts is -1"}},
           {"--experts 4 --expert-ffn 0", {"--expert-ffn is 0"}},
           {"--experts 4 --expert-ffn 288230376151711744", {"more than 10.0 TB", "--expert-ffn"}}});
}

TEST_F(BadExpertRun, FlagsThatDoNotGoTogether) {
  refused(
      {{"--top-k 2", {"--top-k has no meaning without --experts"}},
       {"--dp 2 --ep 2", {"--ep has no meaning without --experts"}},
       {"--experts 4 --capacity-group sequence", {"--capacity-group has no meaning without"}},
       {"--experts 4 --balance none --aux-loss 1", {"--aux-loss has a meaning with --balance aux"}},
       {"--experts 4 --bias-rate 1", {"--bias-rate has a meaning with --balance bias"}},
       {"--experts 4 --shapes table", {"--experts does not go together with --shapes"}}});
}

TEST_F(BadExpertRun, RecordsOfWhatCouldNotTrain) {
  const auto expect_refused = [&](const std::string& line, const std::string& part) {
    const ultra::test::ProcessResult result = run_words(line);
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  expect_refused("--model mixtral-8x7b --ep 3 --dp 3 --on dgx-h100", "--ep must divide --experts");
  expect_refused("--ep-table 1,2", "--dp 8 --ep 1,2,4,8 --on dgx-h100");
}

TEST_F(BadExpertRun, ACheckpointWithOtherExpertsIsAnother) {
  const std::string saved = folder.path("saved");
  const std::string dense = "--global-batch 8 --dtype f64 ";
  const std::string biased = folder.path("biased");
  const std::string bias = dense + "--experts 4 --balance bias --bias-rate ";
  static_cast<void>(summary_of(bias + "0.1 --steps 1 --checkpoint " + biased));
  expect_parts(run(bias + "0.2 --steps 2 --resume " + biased).err,
               {"written with --bias-rate 0.1, this run has --bias-rate 0.2"});
  static_cast<void>(summary_of(dense + "--experts 4 --top-k 1 --steps 1 --checkpoint " + saved));
  const auto expect_other = [&](const std::string& flags, const std::vector<std::string>& parts) {
    const auto result = run(dense + flags + " --steps 2 --resume " + saved);
    EXPECT_EQ(result.exit_code, 2);
    expect_parts(result.err, parts);
  };
  expect_other("--experts 4", {"written with --top-k 1, this run has --top-k 2"});
  expect_other("--experts 8 --top-k 1", {"written with --experts 4", "--experts 8"});
  expect_other("", {"written with", "this run has no --"});
  EXPECT_EQ(
      losses_of(dense + "--experts 4 --top-k 1 --steps 2 --dp 2 --ep 2 --resume " + saved).size(),
      2U);
}

// A folder that says what its experts are has no others.
TEST_F(BadExpertRun, AFolderWithOtherExpertsIsRefused) {
  const std::string saved = folder.path("saved");
  static_cast<void>(output_of(kModel + "--steps 1 --checkpoint " + saved));
  const std::string model = saved + "/step-00000001";
  const auto expect_other = [&](const std::string& flags, const std::vector<std::string>& parts) {
    const auto result =
        run_words("--global-batch 8 --seq 17 --steps 1 --init " + model + " " + flags);
    EXPECT_EQ(result.exit_code, 2);
    expect_parts(result.err, parts);
  };
  expect_other("", {"a mixture of experts", "Add --experts 8 --top-k 2"});
  expect_other("--experts 4", {"--experts is 4", model, "num_local_experts 8"});
  expect_other("--experts 8 --top-k 1", {"--top-k is 1", "num_experts_per_tok 2"});
  expect_other("--experts 8 --router sigmoid", {"--router", "softmax", "Leave --router out"});
  static_cast<void>(answer_to("--global-batch 8 --seq 17 --steps 1 --experts 8 --init " + model));
  json config = json::parse(ultra::test::read_file(model + "/config.json"));
  config["num_experts_per_tok"] = 1;
  std::ofstream(model + "/config.json") << config.dump();
  expect_other("--experts 8 --top-k 1", {"num_experts_per_tok 1", "by its affinity here"});
}

// It had the config.json of a Llama, which says nothing of experts.
TEST_F(ExpertProgram, AnEarlierCheckpointGoesOn) {
  const std::string saved = folder.path("saved");
  const std::string flags = kModel + "--router sigmoid --checkpoint " + saved;
  const json expected = losses_of(kModel + "--router sigmoid --steps 4");
  static_cast<void>(output_of(flags + " --steps 2"));
  const std::string step = saved + "/step-00000002";
  json config = json::parse(ultra::test::read_file(step + "/config.json"));
  config["model_type"] = "llama";
  config["architectures"] = {"LlamaForCausalLM"};
  config["intermediate_size"] = 48;
  config.erase("num_local_experts");
  const std::string text = config.dump();
  std::ofstream(step + "/config.json") << text;
  const std::string list = step + "/parts-00000-of-00001.json";
  json parts = json::parse(ultra::test::read_file(list));
  for (json& part : parts) {
    if (part.at("file") != "config.json") continue;
    part["bytes"] = text.size();
    part["crc32"] = checkpoint::crc32_of(std::as_bytes(std::span(text)));
  }
  std::ofstream(list) << parts.dump();
  EXPECT_EQ(losses_of(flags + " --steps 4 --resume " + saved), expected);
  const json next = json::parse(ultra::test::read_file(saved + "/step-00000004/config.json"));
  EXPECT_EQ(next.at("model_type"), "ultra_scale_mixture");
  EXPECT_EQ(next.at("num_local_experts"), 8);
}

}  // namespace
}  // namespace ultra::expert_parallel
