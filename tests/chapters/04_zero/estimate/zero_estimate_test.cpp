#include "chapters/04_zero/estimate/zero_estimate.hpp"

#include <nlohmann/json.hpp>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "tests/support/programs/parse_options.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

/// Every run of spaces as one.
std::string squeezed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' || result.empty() || result.back() != ' ') result += c;
  }
  return result;
}

// Nominal sizes -----------------------------------------------------------------------------------

TEST(NominalSize, IsAWholeNumberOfParameters) {
  EXPECT_EQ(nominal_size("7.5B"), 7'500'000'000);
  EXPECT_EQ(nominal_size("7B"), 7'000'000'000);
  EXPECT_EQ(nominal_size("128B"), 128'000'000'000);
  EXPECT_EQ(nominal_size("1T"), 1'000'000'000'000);
  EXPECT_EQ(nominal_size("124M"), 124'000'000);
  EXPECT_EQ(nominal_size("1.3b"), 1'300'000'000) << "either case";
  EXPECT_EQ(nominal_size("0.5t"), 500'000'000'000);
  EXPECT_EQ(nominal_size("124.439808M"), 124'439'808) << "to the last parameter";
  EXPECT_EQ(nominal_size("6.738415616B"), 6'738'415'616);
  EXPECT_EQ(nominal_size("100T"), 100'000'000'000'000);
}

TEST(NominalSize, IsNothingElse) {
  for (const char* text : {"",
                           "B",
                           "7",
                           "7.5",
                           "B7",
                           "7.5B ",
                           " 7B",
                           "-7B",
                           "+7B",
                           "7.B",
                           ".5B",
                           "7..5B",
                           "7.5.1B",
                           "7K",
                           "7GB",
                           "7e9",
                           "1e3B",
                           "0B",
                           "0.0T",
                           "0.0000001M",
                           "100.000001T",
                           "101T",
                           "99999999999999999999B",
                           "llama-7b",
                           "gpt3-175b",
                           "custom"}) {
    EXPECT_EQ(nominal_size(text), std::nullopt) << "'" << text << "'";
  }
}

// The estimate ------------------------------------------------------------------------------------

StagesRequest nominal(const std::string& model, int ranks,
                      std::optional<std::size_t> node_size = {}) {
  return {.model = model,
          .parameters = nominal_size(model).value(),
          .ranks = ranks,
          .node_size = node_size};
}

TEST(EstimateStages, ShardsOverAllRanksOrWithinNodes) {
  EXPECT_EQ(nominal("1B", 12).sharding(ZeroStage::kGradients),
            (Sharding{.stage = ZeroStage::kGradients, .shards = 12, .replicas = 1}));
  EXPECT_EQ(nominal("1B", 12, 4).sharding(ZeroStage::kParameters),
            (Sharding{.stage = ZeroStage::kParameters, .shards = 4, .replicas = 3}));
  EXPECT_EQ(nominal("1B", 12, 12).sharding(ZeroStage::kNone),
            nominal("1B", 12).sharding(ZeroStage::kNone));
}

TEST(EstimateStages, HoldsTheFormulasOfEveryStage) {
  StagesRequest request = nominal("7.5B", 64, 8);
  request.micro_batches = 3;
  request.peak_activations = 1000;
  const StageEstimates stages = estimate_stages(request);
  for (const StageEstimate& stage : stages) {
    EXPECT_EQ(stage.bytes, bytes_per_rank(stage.sharding, 7'500'000'000, request.precision));
    EXPECT_EQ(stage.with_activations, stage.bytes.total() + 1000);
    EXPECT_EQ(stage.sent, sent_per_rank(stage.sharding, 7'500'000'000, 3));
    EXPECT_EQ(stage.kept.has_value(), stage.sharding.stage == ZeroStage::kParameters);
    EXPECT_EQ(stage.largest_model, largest_model(stage.sharding, request.precision, 80e9));
  }
  EXPECT_EQ(stages.back().kept,
            sent_per_rank(stages.back().sharding, 7'500'000'000, 3, Reshard::kAfterBackward));
}

TEST(EstimateStages, FindsTheFirstThatFits) {
  const auto first = [](const StagesRequest& request) {
    return first_that_fits(estimate_stages(request));
  };
  EXPECT_EQ(first(nominal("5B", 1)), ZeroStage::kNone) << "80 GB, to the last byte";
  EXPECT_EQ(first(nominal("7B", 8)), ZeroStage::kOptimizer);
  EXPECT_EQ(first(nominal("20B", 8)), ZeroStage::kGradients);
  EXPECT_EQ(first(nominal("40B", 8)), ZeroStage::kParameters);
  EXPECT_EQ(first(nominal("41B", 8)), std::nullopt);
  StagesRequest full = nominal("5B", 1);
  full.peak_activations = 1;
  EXPECT_EQ(first(full), std::nullopt) << "activations count where they are known";
}

TEST(EstimateStages, RefusesNodesThatAreNotWhole) {
  const auto refusal = [](const StagesRequest& request) {
    return test::message_of<ConfigError>([&] { (void)estimate_stages(request); });
  };
  EXPECT_THAT(refusal(nominal("7B", 12, 8)), AllOf(HasSubstr("12 ranks"), HasSubstr("8")));
  EXPECT_THAT(refusal(nominal("7B", 12, 0)), HasSubstr("0"));
  EXPECT_THAT(refusal(nominal("7B", 12, 24)), HasSubstr("24"));
  EXPECT_THAT(refusal(nominal("7B", 0)), HasSubstr("--dp is 0. It must be at least 1."));
}

// The table ---------------------------------------------------------------------------------------

// Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, figure 1: 120, 31.4, 16.6 and 1.9 GB.
TEST(FormatStages, PrintsBytesAndFormulasOfEveryStage) {
  const std::string table = squeezed(format_stages(nominal("7.5B", 64)));
  EXPECT_THAT(table, HasSubstr("Stages of ZeRO: 7.5B, bf16-mixed, P = 7,500,000,000 parameters, "
                               "N = 64 ranks\n"));
  EXPECT_THAT(table, HasSubstr(" GB per rank parameters gradients optimizer total formula"));
  EXPECT_THAT(table, HasSubstr(" none 15.00 15.00 90.00 120.00 2 P + 2 P + 12 P 5.00B\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-1 15.00 15.00 1.41 31.41 2 P + 2 P + 12 P / N 19.1B\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-2 15.00 0.23 1.41 16.64 2 P + (2 P + 12 P) / N 36.1B\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-3 0.23 0.23 1.41 1.88 (2 P + 2 P + 12 P) / N 320B\n"));
  EXPECT_THAT(table, HasSubstr("The states fit on 80 GB GPUs: from ZeRO-1 on.\n"));
  EXPECT_THAT(table, HasSubstr("activations.\n")) << "a size says nothing about them";
  EXPECT_THAT(table, HasSubstr("the head stays")) << "a size says nothing about it either";
}

TEST(FormatStages, PrintsWhatIsSent) {
  StagesRequest request = nominal("7B", 8);
  std::string table = squeezed(format_stages(request));
  EXPECT_THAT(table, HasSubstr("with m = 1 micro-batch:\n"));
  EXPECT_THAT(table, HasSubstr(" none 1.75 P 2 P (N - 1) / N\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-1 1.75 P 2 P (N - 1) / N\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-2 1.75 P (m + 1) P (N - 1) / N\n"));
  request.micro_batches = 3;
  table = squeezed(format_stages(request));
  EXPECT_THAT(table, HasSubstr("with m = 3 micro-batches:\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-1 1.75 P 2 P (N - 1) / N\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-2 3.50 P (m + 1) P (N - 1) / N\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-3 7.88 P 3 m P (N - 1) / N\n"));
  EXPECT_THAT(table, HasSubstr(" kept 5.25 P 2 m P (N - 1) / N\n"));
}

TEST(FormatStages, TellsNodesFromTheWholeMachine) {
  const std::string table = squeezed(format_stages(nominal("7B", 32, 8)));
  EXPECT_THAT(table, HasSubstr("shards on the S = 8 ranks of a node, copies on R = 4 nodes\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-3 1.75 1.75 10.50 14.00 (2 P + 2 P + 12 P) / S 40.0B\n"));
  EXPECT_THAT(table, HasSubstr(" in a node between\n"));
  EXPECT_THAT(table, HasSubstr(" ZeRO-1 1.75 P 2 P (S - 1) / S 0.19 P 2 (P / S) (R - 1) / R\n"));
  EXPECT_THAT(table,
              HasSubstr(" ZeRO-2 1.75 P (m + 1) P (S - 1) / S 0.19 P 2 (P / S) (R - 1) / R\n"));
  EXPECT_EQ(format_stages(nominal("7B", 8, 8)), format_stages(nominal("7B", 8)))
      << "one node is the whole machine";
}

TEST(FormatStages, FollowsThePrecision) {
  StagesRequest request = nominal("1B", 4);
  request.precision = memory::NumberFormats::kBf16MixedFp32Grads;
  EXPECT_THAT(squeezed(format_stages(request)),
              AllOf(HasSubstr("bf16-mixed-fp32grads"),
                    HasSubstr(" ZeRO-2 2.00 1.50 3.00 6.50 2 P + (6 P + 12 P) / N ")));
  request.precision = memory::NumberFormats::kFp32;
  EXPECT_THAT(squeezed(format_stages(request)),
              HasSubstr(" ZeRO-1 4.00 4.00 2.00 10.00 4 P + 4 P + 8 P / N "));
}

TEST(FormatStages, CountsSmallModelsInMegabytes) {
  EXPECT_THAT(squeezed(format_stages(nominal("10M", 2))),
              AllOf(HasSubstr(" MB per rank "), HasSubstr(" ZeRO-3 10.00 10.00 60.00 80.00 "),
                    HasSubstr("The states fit on 80 GB GPUs: with every stage, and without.")));
}

TEST(FormatStages, SaysWhatFits) {
  EXPECT_THAT(format_stages(nominal("40B", 8)),
              HasSubstr("The states fit on 80 GB GPUs: with ZeRO-3 only."));
  EXPECT_THAT(format_stages(nominal("1T", 4)),
              HasSubstr("The states fit on 80 GB GPUs: with no stage."));
}

TEST(StagesToJson, HoldsTheNumbersOfTheTable) {
  StagesRequest request = nominal("7B", 32, 8);
  request.micro_batches = 2;
  const auto json = nlohmann::json::parse(stages_to_json(request).dump());
  EXPECT_EQ(json["ranks"], 32);
  EXPECT_EQ(json["node_size"], 8);
  EXPECT_EQ(json["micro_batches"], 2);
  ASSERT_EQ(json["stages"].size(), 4U);
  const auto& second = json["stages"][2];
  EXPECT_EQ(second["stage"], 2);
  EXPECT_EQ(second["name"], "ZeRO-2");
  EXPECT_EQ(second["bytes"]["parameters"], 14e9);
  EXPECT_EQ(second["bytes"]["gradients"], 1.75e9);
  EXPECT_EQ(second["bytes"]["optimizer"], 10.5e9);
  EXPECT_EQ(second["bytes"]["total"], 26.25e9);
  EXPECT_FALSE(second["bytes"].contains("with_activations"));
  EXPECT_EQ(second["sent_elements"]["inside"], 3 * 7e9 * 7 / 8);
  EXPECT_EQ(second["sent_elements"]["between"], 2 * 7e9 / 8 * 3 / 4);
  EXPECT_EQ(second["sent_per_parameter"], 3.0 * 7 / 8 + 2.0 / 8 * 3 / 4);
  EXPECT_EQ(second["fits_80gb_gpu"], true);
  EXPECT_FALSE(second.contains("sent_elements_kept"));
  EXPECT_EQ(json["stages"][3]["sent_elements_kept"]["inside"], 4 * 7e9 * 7 / 8);
  EXPECT_EQ(json["stages"][3]["largest_model_80gb"], 40e9);
  EXPECT_EQ(json["stages"][0]["fits_80gb_gpu"], false);
}

// The answer to --estimate ------------------------------------------------------------------------

/// The flags of the executable that the answer depends on.
struct Flags {
  train::TrainOptions train;
  memory::MemoryOptions memory;

  explicit Flags(const std::vector<std::string>& arguments) {
    ultra::test::parse_into(arguments, train, memory);
  }

  [[nodiscard]] std::string answer(int ranks, std::optional<std::size_t> node_size = {}) const {
    return zero::answer(memory, train, ranks, node_size);
  }
  [[nodiscard]] nlohmann::json json(int ranks) const {
    return nlohmann::json::parse(answer(ranks));
  }
  [[nodiscard]] std::string refusal(int ranks) const {
    return ultra::test::message_of<ConfigError>([&] { (void)answer(ranks); });
  }
};

TEST(Answer, OfANominalSizeAreTheStages) {
  const Flags flags({"--estimate", "7.5B"});
  EXPECT_EQ(flags.answer(64), format_stages(nominal("7.5B", 64)));
  EXPECT_EQ(flags.answer(64, 8), format_stages(nominal("7.5B", 64, 8)));
  EXPECT_THAT(flags.answer(64), Not(HasSubstr("Memory estimate")));
}

TEST(Answer, OfANominalSizeAsJsonNamesTheModel) {
  const nlohmann::json json =
      Flags({"--estimate", "7.5B", "--json", "--precision", "fp32"}).json(64);
  EXPECT_EQ(json["model"]["name"], "7.5B");
  EXPECT_EQ(json["precision"], "fp32");
  EXPECT_EQ(json["parameters"], 7'500'000'000);
  EXPECT_EQ(json["ranks"], 64);
  EXPECT_EQ(json["stages"].size(), 4U);
}

// Llama-3-8B: 8,030,261,248 parameters.
TEST(Answer, OfAKnownModelIsChapter01sEstimateAndTheStages) {
  const Flags flags({"--estimate", "llama-8b", "--seq", "4096", "--micro-batch", "1"});
  const memory::MemoryEstimate whole = estimate_memory(flags.memory.request(flags.train));
  const std::string found = flags.answer(8);
  EXPECT_EQ(found.find(format_estimate(whole)), 0U) << "chapter 01's table comes first:\n" << found;
  StagesRequest request{.model = "llama-8b", .parameters = 8'030'261'248, .ranks = 8};
  request.micro_batches = 2;  // 16 sequences per step, 2 per rank
  request.peak_activations = whole.peak_activations;
  EXPECT_THAT(found, HasSubstr("\n" + format_stages(request)));
  EXPECT_THAT(found, HasSubstr("+ activations"));
}

TEST(Answer, OfAKnownModelAsJsonIsOneObject) {
  const Flags flags({"--estimate", "llama-8b", "--json"});
  const nlohmann::json json = flags.json(8);
  EXPECT_EQ(json["model"]["layers"], 32);
  EXPECT_EQ(json["bytes"]["optimizer"], 12 * 8'030'261'248U) << "of the whole model";
  const auto& third = json["stages"][3];
  EXPECT_EQ(third["bytes"]["total"], 2.0 * 8'030'261'248);
  EXPECT_EQ(third["bytes"]["with_activations"],
            third["bytes"]["total"].get<double>() + json["bytes"]["activations"].get<double>());
}

TEST(Answer, OfACustomModelFollowsItsFlags) {
  const Flags flags({"--estimate", "custom", "--layers", "3", "--json"});
  const nlohmann::json json = flags.json(4);
  EXPECT_EQ(json["model"]["layers"], 3);
  EXPECT_EQ(json["stages"][1]["bytes"]["optimizer"], 3.0 * json["parameters"].get<double>());
}

TEST(Answer, CountsTheMicroBatchesOfTheLargestShare) {
  const auto micro_batches = [](const char* batch, const char* micro_batch, int ranks) {
    const Flags flags(
        {"--estimate", "7B", "--json", "--global-batch", batch, "--micro-batch", micro_batch});
    return flags.json(ranks)["micro_batches"].get<int>();
  };
  EXPECT_EQ(micro_batches("16", "4", 2), 2);
  EXPECT_EQ(micro_batches("16", "4", 3), 2) << "shares of 6, 5 and 5 sequences";
  EXPECT_EQ(micro_batches("16", "4", 64), 1) << "never less than one";
  EXPECT_EQ(micro_batches("1024", "1", 8), 128);
}

TEST(AnswerRefuses, UnknownModelsAndSaysThatSizesAreNamesToo) {
  for (const char* model : {"llama-9b", "101T", "7.5"}) {
    EXPECT_THAT(Flags({"--estimate", model}).refusal(8),
                AllOf(HasSubstr("no model is called '" + std::string(model) + "'"),
                      HasSubstr("llama-8b"), HasSubstr("custom"), HasSubstr("such as 7.5B")));
  }
}

TEST(AnswerRefuses, ModelsThatCannotBeWithoutAWordAboutSizes) {
  EXPECT_THAT(Flags({"--estimate", "custom", "--heads", "3"}).refusal(8), Not(HasSubstr("7.5B")));
  EXPECT_THAT(Flags({"--estimate", "gpt3-175b", "--seq", "4096"}).refusal(8),
              AllOf(HasSubstr("2048 learned positions"), Not(HasSubstr("7.5B"))));
}

TEST(AnswerRefuses, RanksAndBatchesOfNothing) {
  EXPECT_THAT(Flags({"--estimate", "7B"}).refusal(0), HasSubstr("--dp is 0"));
  for (const std::string flag : {"--micro-batch", "--global-batch"}) {
    EXPECT_THAT(ultra::test::message_of<ConfigError>([&] {
                  static_cast<void>(Flags({"--estimate", "7B", flag, "0"}));
                }),
                HasSubstr(flag + " is 0"));
  }
}

}  // namespace
}  // namespace ultra::zero
