// What a model is made of: its sizes and its first weights.
//
// Covers: common/nn/initialization.hpp
// Covers: common/nn/named_models.hpp

#include "common/nn/model_config.hpp"

#include <map>

#include "common/nn/initialization.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/nn/named_models.hpp"
#include "common/ops/elementwise.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

std::string refusal(const std::function<void(ModelConfig&)>& spoil) {
  ModelConfig config;
  spoil(config);
  return test::message_of<ConfigError>([&] { config.validate(); });
}

TEST(ModelConfig, HeadsMayHaveAWidthOfTheirOwn) {
  const ModelConfig config{.hidden_size = 130, .num_heads = 12, .num_kv_heads = 3, .head_size = 16};
  EXPECT_NO_THROW(config.validate());
  EXPECT_EQ(config.head_dim(), 16U);
  EXPECT_EQ(config.q_hidden_size(), 192U);
  EXPECT_EQ(config.kv_hidden_size(), 48U);
  EXPECT_THAT(refusal([](ModelConfig& c) { c.head_size = 5; }), HasSubstr("--head-dim is 5"));
}

TEST(ModelConfig, BiasesAndNormsOfHeadsGoIntoNoModelTogether) {
  EXPECT_THAT(refusal([](ModelConfig& c) { c.qkv_bias = c.qk_norm = true; }),
              AllOf(HasSubstr("--qkv-bias"), HasSubstr("--qk-norm"), HasSubstr("Leave one")));
}

TEST(ModelConfig, LatentAttentionMakesAModel) {
  ModelConfig config{.hidden_size = 130, .num_heads = 12, .num_kv_heads = 12};
  config.latent = {.on = true,
                   .kv_lora_rank = 10,
                   .qk_nope_head_dim = 6,
                   .qk_rope_head_dim = 4,
                   .v_head_dim = 9};
  EXPECT_NO_THROW(config.validate()) << "heads need not divide the hidden size";
  EXPECT_EQ(config.head_dim(), 10U);
  EXPECT_EQ(config.core_head_dim(), 10U);
  EXPECT_EQ(config.rotated_dim(), 4U);
  EXPECT_FALSE(config.has_closed_forms());
  config.latent.absorbed = true;
  EXPECT_EQ(config.core_head_dim(), 14U);
}

TEST(ModelConfig, ABlockForTheTokenAfterNextIsOneMoreAndReadsTheTable) {
  ModelConfig config;
  EXPECT_TRUE(config.has_closed_forms());
  EXPECT_EQ(config.num_blocks(), config.num_layers);
  EXPECT_FALSE(config.reads_table_twice());
  config.mtp = true;
  EXPECT_FALSE(config.has_closed_forms());
  EXPECT_EQ(config.num_blocks(), config.num_layers + 1);
  EXPECT_TRUE(config.reads_table_twice());
}

TEST(ModelConfig, AHeadInPiecesAndTheModuleOfTheTokenAfterNextAreRefusedTogether) {
  EXPECT_THAT(refusal([](ModelConfig& c) {
                c.mtp = true;
                c.head_chunks = 2;
              }),
              AllOf(HasSubstr("--head-chunks and --mtp"), HasSubstr("Leave one")));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.head_chunks = 0; }), HasSubstr("--head-chunks is 0"));
}

TEST(ModelConfig, LatentsThatMakeNoModelAreRefused) {
  const auto latent_refusal = [](auto change) {
    return refusal([&](ModelConfig& c) {
      c.latent.on = true;
      c.num_kv_heads = c.num_heads;
      change(c);
    });
  };
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.latent.kv_lora_rank = 0; }),
              HasSubstr("--kv-lora-rank is 0"));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.latent.kv_lora_rank = 7; }),
              AllOf(HasSubstr("--kv-lora-rank is 7"), HasSubstr("even"), HasSubstr("Choose 8")));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.latent.qk_rope_head_dim = 3; }),
              HasSubstr("--qk-rope-head-dim is 3"));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.latent.v_head_dim = 49; }),
              AllOf(HasSubstr("--v-head-dim 49"), HasSubstr("at most 48")));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.num_kv_heads = 2; }),
              AllOf(HasSubstr("4 --heads"), HasSubstr("--kv-heads is 2")));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.head_size = 8; }),
              HasSubstr("Leave --head-dim"));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.qkv_bias = true; }),
              HasSubstr("Leave --qkv-bias"));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.qk_norm = true; }),
              HasSubstr("Leave --qk-norm"));
  EXPECT_THAT(latent_refusal([](ModelConfig& c) { c.sliding_window = 5; }),
              AllOf(HasSubstr("see all tokens"), HasSubstr("Leave --window")));
}

class InitializationTest : public test::RandomTest {};

TEST_F(InitializationTest, AModelsWeightsHaveTheDeviationsThatAreStated) {
  const ModelConfig config{.hidden_size = 64, .num_layers = 3, .ffn_hidden_size = 96};
  DenseFactory factory;
  const Model model(config, device, DType::kF32, seed, factory);
  for (const Parameter* p : model.parameters()) {
    const double count = test::count_of(p->value().numel());
    const double mean_square = ops::sum_of_squares(p->value()) / count;
    const std::string& name = p->name();
    if (name.find("norm") != std::string::npos) {
      EXPECT_EQ(mean_square, 1.0) << name;
      continue;
    }
    const bool residual =
        name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    const double variance = residual ? 4e-4 / 6.0 : 4e-4;
    // Six standard errors of the mean of squares of normal numbers.
    EXPECT_NEAR(mean_square, variance, 6.0 * variance * std::sqrt(2.0 / count)) << name;
  }
}

// The sums over the published checkpoints.
TEST(NamedModels, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string, std::size_t> published = {
      {"llama-1b", 1'235'814'400},   {"llama-7b", 6'738'415'616},     {"llama-8b", 8'030'261'248},
      {"llama-70b", 70'553'706'496}, {"llama-405b", 405'853'388'800}, {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-7b", 7'615'616'512}, {"qwen3-0.6b", 596'049'920},     {"qwen3-8b", 8'190'735'360}};
  EXPECT_EQ(published_models().size(), published.size());
  for (const auto& [name, config] : published_models()) {
    DenseFactory factory;
    std::size_t parameters = 0;
    for (const auto& [tensor, shape] : named_shapes(config, factory)) parameters += shape.numel();
    EXPECT_EQ(parameters, published.at(name)) << name;
  }
}

}  // namespace
}  // namespace ultra::nn
