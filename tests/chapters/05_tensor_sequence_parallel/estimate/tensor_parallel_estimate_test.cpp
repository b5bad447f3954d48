#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_estimate.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/programs/parse_options.hpp"
#include "tests/support/programs/table_row.hpp"

namespace ultra::tensor_parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TensorParallelRequest request_of(const char* model, std::size_t seq, int tp,
                                 SequenceParallel sequence_parallel = SequenceParallel::kOn) {
  return {.model = {.shape = memory::find_preset(model), .batch = {.size = 1, .seq_len = seq}},
          .layout = {.tp = tp, .sequence_parallel = sequence_parallel}};
}

std::vector<int> numbers_of_ranks(const TensorParallelRequest& request) {
  std::vector<int> found;
  for (const RankEstimatePair& pair : estimate_up_to(request)) {
    found.push_back(pair.without.layout.tp);
  }
  return found;
}

// The numbers -------------------------------------------------------------------------------------

TEST(EstimateRank, HoldsTheClosedForms) {
  TensorParallelRequest request = request_of("llama-8b", 8192, 4);
  request.sharding = {.stage = zero::ZeroStage::kOptimizer, .shards = 16, .replicas = 2};
  const RankEstimate found = estimate_rank(request);
  const auto& [shape, batch, precision, recompute] = request.model;
  const std::size_t count = parameter_count(shape, request.layout);
  EXPECT_EQ(found.parameter_count, count);
  EXPECT_EQ(found.states, zero::bytes_per_rank(request.sharding, count, precision));
  EXPECT_EQ(found.states.optimizer, 12.0 * static_cast<double>(count) / 16);
  EXPECT_EQ(found.activations_per_layer,
            block_activation_bytes(shape, batch, precision, recompute.mode, request.layout));
  EXPECT_EQ(found.peak_activations,
            peak_activation_bytes(shape, batch, precision, recompute, request.layout));
  EXPECT_EQ(found.total(), found.states.total() + static_cast<double>(found.peak_activations));
}

TEST(EstimateRank, OfOneRankIsChapter01s) {
  for (const memory::TransformerShape& shape : memory::model_presets()) {
    const TensorParallelRequest request = request_of(shape.name.c_str(), 1024, 1);
    const memory::MemoryEstimate whole = estimate_memory(request.model);
    const RankEstimate found = estimate_rank(request);
    EXPECT_EQ(found.total(), static_cast<double>(whole.total())) << shape.name;
    EXPECT_EQ(found.activations_per_layer, whole.activations_per_layer);
    EXPECT_EQ(found.fits(), whole.min_gpus() == 1);
  }
}

TEST(EstimateUpTo, GoesThroughTheDivisorsThatCanBe) {
  EXPECT_EQ(numbers_of_ranks(request_of("llama-8b", 4096, 8)), (std::vector{1, 2, 4, 8}));
  EXPECT_EQ(numbers_of_ranks(request_of("llama-8b", 4096, 1)), std::vector{1});
  EXPECT_EQ(numbers_of_ranks(request_of("gpt2-124m", 1020, 12)), (std::vector{1, 2, 3, 4, 6, 12}));
  TensorParallelRequest request = request_of("llama-8b", 4096, 12);
  request.model.shape.num_heads = 24;
  request.model.shape.num_kv_heads = 4;
  request.model.shape.hidden_size = 24 * 128;
  request.model.shape.ffn_hidden_size = 24 * 256;
  request.model.batch.seq_len = 4080;
  EXPECT_EQ(numbers_of_ranks(request), (std::vector{1, 2, 4, 12}))
      << "4 key/value heads are dealt out neither to 3 ranks nor to 6";
}

TEST(EstimateUpTo, LeavesOutSequenceParallelismWhereItCannotBe) {
  const auto pairs = estimate_up_to(request_of("llama-8b", 4090, 4, SequenceParallel::kOff));
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_FALSE(pairs[0].with) << "one rank has nobody to share with";
  EXPECT_TRUE(pairs[1].with);
  EXPECT_FALSE(pairs[2].with) << "4090 % 4 = 2";
  EXPECT_EQ(pairs[1].with->states, pairs[1].without.states);
  EXPECT_LT(pairs[1].with->peak_activations, pairs[1].without.peak_activations);
}

// The table ---------------------------------------------------------------------------------------

// 8,030,261,248 parameters on 1 rank; on 8, 1 / 8 and 7 / 8 of the 65 norms of 4096: 1,004,015,616.
TEST(FormatRanks, PrintsWithoutAndWithSequenceParallelismSideBySide) {
  const std::string table = format_ranks(request_of("llama-8b", 8192, 8));
  EXPECT_THAT(table, HasSubstr("Tensor parallelism: llama-8b, bf16-mixed, 1 sequence of 8192 "
                               "tokens, recomputation: none\n"));
  EXPECT_EQ(test::row(table, "tp p"),
            "tp parameters gradients optimizer activations total activations total fits 80 GB");
  EXPECT_THAT(test::row(table, "1 "),
              AllOf(HasSubstr("1 16.06 16.06 96.36 "), HasSubstr(" - - no")));
  EXPECT_THAT(test::row(table, "8 "), AllOf(HasSubstr("8 2.01 2.01 12.05 "), HasSubstr(" yes")));
  EXPECT_THAT(table, HasSubstr("At tp 8 a rank has 1,004,015,616 of 8,030,261,248 parameters.\n"));
  EXPECT_THAT(table, Not(HasSubstr("padded")));
  EXPECT_THAT(table, Not(HasSubstr("key/value heads is on")));
}

TEST(FormatRanks, PrintsTheTotalsOfBoth) {
  const TensorParallelRequest request = request_of("llama-8b", 8192, 2);
  const auto pairs = estimate_up_to(request);
  const auto gb = [](double bytes) { return fmt::format("{:.2f}", bytes / 1e9); };
  const auto& [without, with] = pairs.back();
  EXPECT_THAT(
      test::row(format_ranks(request), "2 "),
      HasSubstr(fmt::format("{} {} {} {} ", gb(static_cast<double>(without.peak_activations)),
                            gb(without.total()), gb(static_cast<double>(with->peak_activations)),
                            gb(with->total()))));
  EXPECT_THAT(
      format_ranks(request),
      HasSubstr("tp 2 with sequence parallelism: " + gb(with->total()) + " GB per rank.\n"));
}

TEST(FormatRanks, SaysWhatFits) {
  const auto table = [](std::size_t seq, int tp) {
    return format_ranks(request_of("llama-8b", seq, tp));
  };
  EXPECT_THAT(table(2048, 4), HasSubstr("Fewest ranks that fit on GPUs of 80 GB: tp 2 without "
                                        "sequence parallelism.\n"));
  EXPECT_THAT(table(2048, 1), HasSubstr("No layout here fits on GPUs of 80 GB.\n"));
  EXPECT_THAT(table(32768, 8), HasSubstr("Fewest ranks that fit on GPUs of 80 GB: tp 4 with "
                                         "sequence parallelism.\n"));
  EXPECT_THAT(test::row(table(32768, 8), "4 "), HasSubstr(" with SP"));
}

TEST(FormatRanks, NamesCopiesAndPadding) {
  EXPECT_THAT(format_ranks(request_of("llama-70b", 4096, 16)),
              HasSubstr("Each of the 8 key/value heads is on 2 ranks.\n"));
  EXPECT_THAT(format_ranks(request_of("gpt2-124m", 1024, 4)),
              HasSubstr("The vocabulary of 50257 is padded to 50260.\n"));
}

TEST(FormatRanks, CountsSmallModelsInMegabytes) {
  const std::string table = format_ranks(request_of("gpt2-124m", 1024, 2));
  EXPECT_THAT(table, HasSubstr("  MB "));
  EXPECT_THAT(test::row(table, "1 "), HasSubstr("1 248.88 248.88 1493.28 "));
}

TEST(FormatRanks, NamesTheStageOfZero) {
  TensorParallelRequest request = request_of("llama-8b", 4096, 2);
  EXPECT_THAT(format_ranks(request), Not(HasSubstr("the same part of the model")));
  request.sharding = {.stage = zero::ZeroStage::kParameters, .shards = 8, .replicas = 1};
  EXPECT_THAT(format_ranks(request),
              HasSubstr("\n  ZeRO-3 on 8 ranks that have the same part of the model\n"));
  request.sharding.replicas = 4;
  EXPECT_THAT(format_ranks(request), HasSubstr("\n  ZeRO-3 on 32 ranks that have the same part of "
                                               "the model, in shards on 8 of them\n"));
}

// JSON --------------------------------------------------------------------------------------------

TEST(RanksToJson, HoldsTheNumbersOfTheTable) {
  TensorParallelRequest request = request_of("llama-8b", 4096, 4);
  request.sharding = {.stage = zero::ZeroStage::kGradients, .shards = 2, .replicas = 1};
  const auto json = nlohmann::json::parse(ranks_to_json(request).dump());
  const auto pairs = estimate_up_to(request);
  EXPECT_EQ(json["tp"], 4);
  EXPECT_EQ(json["sequence_parallel"], true);
  EXPECT_EQ(json["zero"], (nlohmann::json{{"stage", 2}, {"shards", 2}, {"replicas", 1}}));
  ASSERT_EQ(json["layouts"].size(), 3U);
  EXPECT_TRUE(json["layouts"][0]["with_sp"].is_null());
  const auto& last = json["layouts"][2];
  EXPECT_EQ(last["tp"], 4);
  EXPECT_EQ(last["parameters"], pairs[2].without.parameter_count);
  EXPECT_EQ(last["bytes"]["parameters"], pairs[2].without.states.parameters);
  EXPECT_EQ(last["bytes"]["gradients"], pairs[2].without.states.gradients);
  EXPECT_EQ(last["bytes"]["optimizer"], pairs[2].without.states.optimizer);
  EXPECT_EQ(last["without_sp"]["activations"], pairs[2].without.peak_activations);
  EXPECT_EQ(last["without_sp"]["total"], pairs[2].without.total());
  EXPECT_EQ(last["with_sp"]["activations_per_layer"], pairs[2].with->activations_per_layer);
  EXPECT_EQ(last["with_sp"]["fits_80gb_gpu"], true);
  EXPECT_EQ(json["per_rank"]["tp"], 4);
  EXPECT_EQ(json["per_rank"]["activations"], pairs[2].with->peak_activations) << "--sp on";
  EXPECT_EQ(json["per_rank"]["total"], pairs[2].with->total());
}

TEST(RanksToJson, FollowsTheRequestedSequenceParallelism) {
  const auto json = ranks_to_json(request_of("llama-8b", 4096, 4, SequenceParallel::kOff));
  EXPECT_EQ(json["sequence_parallel"], false);
  EXPECT_EQ(json["per_rank"]["total"], json["layouts"][2]["without_sp"]["total"]);
}

// The answer to --estimate ------------------------------------------------------------------------

/// The flags of the executable that the answer depends on.
struct Flags {
  train::TrainOptions train;
  memory::MemoryOptions memory;

  explicit Flags(const std::vector<std::string>& arguments) {
    test::parse_into(arguments, train, memory);
  }

  [[nodiscard]] std::string answer(const TensorParallelLayout& layout) const {
    return tensor_parallel::answer(memory, train, layout);
  }
  [[nodiscard]] std::string refusal(const TensorParallelLayout& layout) const {
    return test::message_of<ConfigError>([&] { (void)answer(layout); });
  }
};

TEST(TensorParallelAnswer, IsChapter01sEstimateAndTheRanks) {
  const Flags flags(
      {"--estimate", "llama-8b", "--seq", "4096", "--micro-batch", "2", "--recompute", "full"});
  TensorParallelRequest request = request_of("llama-8b", 4096, 8);
  request.model.batch.size = 2;
  request.model.recompute.mode = memory::Recompute::kFull;
  EXPECT_EQ(flags.answer(request.layout),
            format_estimate(estimate_memory(request.model)) + "\n" + format_ranks(request));
}

TEST(TensorParallelAnswer, AsJsonIsOneObject) {
  const Flags flags({"--estimate", "custom", "--layers", "3", "--json"});
  const auto json =
      nlohmann::json::parse(flags.answer({.tp = 2, .sequence_parallel = SequenceParallel::kOn}));
  EXPECT_EQ(json["model"]["layers"], 3);
  EXPECT_EQ(json["tp"], 2);
  EXPECT_EQ(json["layouts"][0]["without_sp"]["total"], json["bytes"]["total"])
      << "one rank is chapter 01's device";
}

TEST(TensorParallelAnswer, RefusesWhatCannotBeSplit) {
  EXPECT_THAT(Flags({"--estimate", "7.5B"}).refusal({.tp = 2}),
              AllOf(HasSubstr("7.5B"), HasSubstr("--tp"), HasSubstr("custom")));
  EXPECT_THAT(Flags({"--estimate", "llama-9b"}).refusal({.tp = 2}), HasSubstr("llama-8b"));
  EXPECT_THAT(Flags({"--estimate", "llama-8b"}).refusal({.tp = 3}), HasSubstr("--tp"));
  EXPECT_THAT(Flags({"--estimate", "llama-8b"}).refusal({.tp = 0}), HasSubstr("--tp is 0"));
  EXPECT_THAT(Flags({"--estimate", "llama-8b"}).refusal({.tp = 64}), HasSubstr("--heads"));
  EXPECT_THAT(Flags({"--estimate", "llama-8b", "--seq", "4097"})
                  .refusal({.tp = 2, .sequence_parallel = SequenceParallel::kOn}),
              HasSubstr("--seq"));
}

}  // namespace
}  // namespace ultra::tensor_parallel
