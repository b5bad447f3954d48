#include "chapters/06_context_parallel/estimate/context_estimate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::context_parallel {
namespace {

using ::testing::HasSubstr;

ContextRequest llama(int cp, std::size_t seq_len) {
  return {.model = {.shape = memory::shape_for_estimate("llama-8b", {}),
                    .batch = {.size = 1, .seq_len = seq_len}},
          .share = {.layout = {.cp = cp, .seq_len = seq_len}, .choice = {.cp = cp}, .tensor = {}},
          .sharding = {.shards = cp}};
}

TEST(ContextEstimate, ActivationsFallAsOneOverCpAndStatesDoNot) {
  const std::vector<ContextEstimate> all = estimate_up_to(llama(8, 65536));
  ASSERT_EQ(all.size(), 4U) << "1, 2, 4, 8";
  for (const ContextEstimate& one : all) {
    EXPECT_EQ(one.peak_activations * static_cast<std::size_t>(one.cp), all[0].peak_activations);
    EXPECT_EQ(one.activations_per_layer * static_cast<std::size_t>(one.cp),
              all[0].activations_per_layer);
    EXPECT_EQ(one.states, all[0].states);
  }
}

TEST(ContextEstimate, ZeroSharesStatesOverDpTimesCp) {
  ContextRequest request = llama(4, 4096);
  request.sharding = {.stage = zero::ZeroStage::kParameters, .shards = 8};
  const std::vector<ContextEstimate> all = estimate_up_to(request);
  EXPECT_DOUBLE_EQ(all.back().states.total() * 4, all.front().states.total()) << "of 2 and of 8";
}

TEST(ContextEstimate, NodesShareStatesAmongThemselves) {
  ContextRequest request = llama(4, 4096);
  request.sharding = {.stage = zero::ZeroStage::kParameters, .shards = 4, .replicas = 2};
  const std::vector<ContextEstimate> all = estimate_up_to(request);
  ASSERT_EQ(all.size(), 3U) << "1, 2, 4";
  EXPECT_DOUBLE_EQ(all[0].states.total(), all[1].states.total() * 2) << "2 ranks, 4 ranks";
  EXPECT_DOUBLE_EQ(all[1].states.total(), all[2].states.total()) << "8 ranks: two nodes of 4";
}

TEST(ContextEstimate, HeadsForTokensKeepTheOutputTwice) {
  ContextRequest request = llama(4, 4096);
  const std::size_t ring = estimate_up_to(request).back().activations_per_layer;
  request.share.choice = {.method = ContextMethod::kUlysses, .cp = 4, .ulysses = 4};
  EXPECT_EQ(estimate_up_to(request).back().activations_per_layer, ring + 2 * 1024 * 4096U);
}

TEST(ContextEstimate, AnswersAsATableAndAsJson) {
  memory::MemoryOptions options;
  options.estimate = "llama-8b";
  train::TrainOptions train;
  train.model.max_seq_len = 8192;
  train.micro_batch = 1;
  const LocalModel share = llama(4, 8192).share;
  const std::string table = answer(options, train, share, {.shards = 4});
  EXPECT_THAT(table, HasSubstr("Context parallelism: "));
  EXPECT_THAT(table, HasSubstr("2048"));
  options.json = true;
  const auto json = nlohmann::json::parse(answer(options, train, share, {.shards = 4}));
  EXPECT_EQ(json.at("cp"), 4);
  EXPECT_EQ(json.at("context_layouts").size(), 3U);
  options.estimate = "7.5B";
  EXPECT_THAT(ultra::test::message_of<ConfigError>(
                  [&] { static_cast<void>(answer(options, train, share, {.shards = 4})); }),
              HasSubstr("--estimate 7.5B"));
}

}  // namespace
}  // namespace ultra::context_parallel
