#include "common/checkpoint/models/model_family.hpp"

#include <nlohmann/json.hpp>

#include "common/checkpoint/models/config_json.hpp"
#include "tests/common/checkpoint/example_config.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kReason = "its affinities are sigmoids";

std::string llama() { return model_config_json(a_model(), DType::kF32); }

MixtureConfig a_mixture(const std::string& unlike_published = {}) {
  return {.experts = 8, .top_k = 2, .expert_ffn = 24, .unlike_published = unlike_published};
}

/// The message about a config.json with another value.
std::string refused_with(json config, const char* key, const json& value) {
  config[key] = value;
  return message_of<FileError>(
      [&] { static_cast<void>(parse_model_config(config.dump(), kPath)); });
}

/// And about one without a member.
std::string refused_without(json config, const char* key) {
  config.erase(key);
  return message_of<FileError>(
      [&] { static_cast<void>(parse_model_config(config.dump(), kPath)); });
}

// The expected names are those of Hugging Face's MixtralConfig.
TEST(Families, AMixturesDimensionsAreNamedAsMixtralConfigDoes) {
  const json expected = {{"architectures", {"MixtralForCausalLM"}},
                         {"model_type", "mixtral"},
                         {"vocab_size", 300},
                         {"hidden_size", 48},
                         {"num_hidden_layers", 3},
                         {"num_attention_heads", 6},
                         {"num_key_value_heads", 2},
                         {"head_dim", 8},
                         {"intermediate_size", 24},
                         {"num_local_experts", 8},
                         {"num_experts_per_tok", 2},
                         {"max_position_embeddings", 77},
                         {"rope_theta", 5000.0},
                         {"rms_norm_eps", 1e-6},
                         {"hidden_act", "silu"},
                         {"sliding_window", nullptr},
                         {"router_jitter_noise", 0.0},
                         {"output_router_logits", false},
                         {"tie_word_embeddings", false},
                         {"bos_token_id", nullptr},
                         {"eos_token_id", nullptr},
                         {"torch_dtype", "float32"}};
  EXPECT_EQ(json::parse(config_with_mixture(llama(), a_mixture(), kPath)), expected);
}

// transformers ends with an error at a model_type that it does not know.
TEST(Families, AnotherMixtureHasATypeThatNobodyLoads) {
  const json config = json::parse(config_with_mixture(llama(), a_mixture(kReason), kPath));
  EXPECT_EQ(config.at("model_type"), "ultra_scale_mixture");
  EXPECT_EQ(config.at("architectures"), json::array({"UltraScaleMixtureForCausalLM"}));
  EXPECT_EQ(config.at("no_published_mixture_because"), kReason);
  EXPECT_EQ(config.at("num_local_experts"), 8);
  EXPECT_FALSE(config.contains("router_jitter_noise"));
}

TEST(Families, AMixtureKeepsWhatAnotherProgramHasWritten) {
  json config = json::parse(llama());
  config["eos_token_id"] = {1, 2};
  config["max_position_embeddings"] = 4096;
  const json found = json::parse(config_with_mixture(config.dump(), a_mixture(), kPath));
  EXPECT_EQ(found.at("eos_token_id"), json::array({1, 2}));
  EXPECT_EQ(found.at("max_position_embeddings"), 4096);
}

TEST(Families, AMixtureIsTheSameAgain) {
  for (const std::string& reason : {std::string(), std::string(kReason)}) {
    const std::string once = config_with_mixture(llama(), a_mixture(reason), kPath);
    EXPECT_EQ(config_with_mixture(once, a_mixture(reason), kPath), once);
  }
}

TEST(Families, AMixtureIsReadAsItWasWritten) {
  nn::ModelConfig model = a_model();
  model.ffn_hidden_size = 24;
  for (const std::string& reason : {std::string(), std::string(kReason)}) {
    const std::string text = config_with_mixture(llama(), a_mixture(reason), kPath);
    EXPECT_EQ(parse_model_config(text, kPath), model);
    const auto mixture = parse_mixture(text, kPath);
    ASSERT_TRUE(mixture.has_value());
    EXPECT_EQ(mixture->is_published, reason.empty());
    EXPECT_EQ(mixture->experts, 8U);
    EXPECT_STREQ(mixture->count, "num_local_experts");
    EXPECT_EQ(mixture->top_k, 2U);
  }
  EXPECT_FALSE(parse_mixture(llama(), kPath).has_value());
}

TEST(Families, AMixtureIsRefusedWithWhatOurModelLacks) {
  json config = json::parse(config_with_mixture(llama(), a_mixture(), kPath));
  const auto refused = [&](const char* key, const json& value) {
    json changed = config;
    changed[key] = value;
    return message_of<FileError>(
        [&] { static_cast<void>(parse_model_config(changed.dump(), kPath)); });
  };
  EXPECT_THAT(refused("architectures", json::array({"LlamaForCausalLM"})),
              HasSubstr("has architectures"));
  config.erase("num_local_experts");
  EXPECT_THAT(
      message_of<FileError>([&] { static_cast<void>(parse_mixture(config.dump(), kPath)); }),
      AllOf(HasSubstr("'some/config.json' is damaged"),
            HasSubstr("it has no 'num_local_experts'")));
}

// What the hub's Qwen2.5-0.5B says, but for its sizes.
TEST(Families, BiasesAreQwen2s) {
  const json config = {{"architectures", {"Qwen2ForCausalLM"}},
                       {"attention_dropout", 0.0},
                       {"bos_token_id", 151643},
                       {"eos_token_id", 151643},
                       {"hidden_act", "silu"},
                       {"hidden_size", 48},
                       {"initializer_range", 0.02},
                       {"intermediate_size", 100},
                       {"max_position_embeddings", 77},
                       {"max_window_layers", 24},
                       {"model_type", "qwen2"},
                       {"num_attention_heads", 6},
                       {"num_hidden_layers", 3},
                       {"num_key_value_heads", 2},
                       {"rms_norm_eps", 1e-06},
                       {"rope_theta", 5000.0},
                       {"sliding_window", 32768},
                       {"tie_word_embeddings", true},
                       {"torch_dtype", "bfloat16"},
                       {"use_cache", true},
                       {"use_mrope", false},
                       {"use_sliding_window", false},
                       {"vocab_size", 300}};
  nn::ModelConfig model = a_model();
  model.tied_embeddings = model.qkv_bias = true;
  EXPECT_EQ(parse_model_config(config.dump(), kPath), model);
  const json ours = json::parse(model_config_json(model, DType::kBF16));
  for (const char* same : {"architectures", "model_type", "use_sliding_window", "torch_dtype"}) {
    EXPECT_EQ(ours.at(same), config.at(same));
  }
  EXPECT_FALSE(ours.contains("attention_bias"));
  EXPECT_THAT(refused_with(config, "use_sliding_window", true), HasSubstr("max_window_layers 24"));
  json windowed = config;
  windowed["use_sliding_window"] = true;
  windowed["max_window_layers"] = 0;
  EXPECT_THAT(refused_without(windowed, "max_window_layers"), HasSubstr("max_window_layers"));
  model.sliding_window = 32768;
  EXPECT_EQ(parse_model_config(windowed.dump(), kPath), model);
  EXPECT_THAT(refused_without(config, "num_key_value_heads"), HasSubstr("num_key_value_heads"));
}

// The expected names are those of Hugging Face's MistralConfig.
TEST(Families, AWindowIsMistrals) {
  nn::ModelConfig model = a_model();
  model.sliding_window = 9;
  const json ours = json::parse(model_config_json(model, DType::kF32));
  EXPECT_EQ(ours.at("architectures"), json::array({"MistralForCausalLM"}));
  EXPECT_EQ(ours.at("model_type"), "mistral");
  EXPECT_EQ(ours.at("sliding_window"), 9);
  EXPECT_EQ(ours.at("head_dim"), 8);
  for (const char* needed : {"sliding_window", "num_key_value_heads"}) {
    EXPECT_THAT(refused_without(ours, needed), HasSubstr(needed));
  }
  json layers = ours;
  layers["layer_types"] = {"sliding_attention", "sliding_attention", "sliding_attention"};
  EXPECT_EQ(parse_model_config(layers.dump(), kPath), model);
  EXPECT_THAT(refused_with(ours, "layer_types", json::array({"full_attention"})),
              AllOf(HasSubstr("layer_types"), HasSubstr("\"sliding_attention\" only")));
  json without = ours;
  without["sliding_window"] = nullptr;  // from version 0.2 on
  EXPECT_EQ(parse_model_config(without.dump(), kPath), a_model());
}

TEST(Families, AMixtureMayHaveAWindow) {
  nn::ModelConfig model = a_model();
  model.sliding_window = 9;
  for (const std::string& reason : {std::string(), std::string(kReason)}) {
    const std::string dense = model_config_json(model, DType::kF32);
    const json config = json::parse(config_with_mixture(dense, a_mixture(reason), kPath));
    EXPECT_EQ(config.at("sliding_window"), 9);
    nn::ModelConfig expected = model;
    expected.ffn_hidden_size = 24;
    EXPECT_EQ(parse_model_config(config.dump(), kPath), expected);
  }
}

TEST(Families, NormsOfQueriesAndKeysAreQwen3s) {
  nn::ModelConfig model = a_model();
  model.qk_norm = true;
  model.head_size = 16;
  const json ours = json::parse(model_config_json(model, DType::kF32));
  EXPECT_EQ(ours.at("architectures"), json::array({"Qwen3ForCausalLM"}));
  EXPECT_EQ(ours.at("model_type"), "qwen3");
  EXPECT_EQ(ours.at("head_dim"), 16);
  EXPECT_THAT(refused_with(ours, "attention_bias", true), HasSubstr("attention_bias"));
  for (const char* needed : {"head_dim", "num_key_value_heads"}) {
    EXPECT_THAT(refused_without(ours, needed), HasSubstr(needed));
  }
}

// The expected names are those of Hugging Face's Qwen3MoeConfig.
TEST(Families, ExpertsBehindNormedHeadsAreQwen3Moes) {
  nn::ModelConfig model = a_model();
  model.qk_norm = true;
  const std::string dense = model_config_json(model, DType::kF32);
  const json mixture = json::parse(config_with_mixture(dense, a_mixture(), kPath));
  EXPECT_EQ(mixture.at("architectures"), json::array({"Qwen3MoeForCausalLM"}));
  EXPECT_EQ(mixture.at("model_type"), "qwen3_moe");
  EXPECT_EQ(mixture.at("num_experts"), 8);
  EXPECT_EQ(mixture.at("num_experts_per_tok"), 2);
  EXPECT_EQ(mixture.at("moe_intermediate_size"), 24);
  EXPECT_EQ(mixture.at("norm_topk_prob"), true);
  EXPECT_EQ(mixture.at("head_dim"), 8);
  model.ffn_hidden_size = 24;
  EXPECT_EQ(parse_model_config(mixture.dump(), kPath), model);
  const auto stored = parse_mixture(mixture.dump(), kPath);
  ASSERT_TRUE(stored.has_value());
  EXPECT_TRUE(stored->is_published);
  EXPECT_EQ(stored->experts, 8U);
  json of_transformers_5 = mixture;
  of_transformers_5.erase("num_experts");
  of_transformers_5["num_local_experts"] = 8;
  EXPECT_EQ(parse_mixture(of_transformers_5.dump(), kPath)->experts, 8U);
  EXPECT_EQ(json::parse(config_with_mixture(of_transformers_5.dump(), a_mixture(), kPath)),
            mixture);
  EXPECT_THAT(refused_with(mixture, "norm_topk_prob", false), HasSubstr("norm_topk_prob"));
  EXPECT_THAT(refused_without(mixture, "norm_topk_prob"), HasSubstr("norm_topk_prob"));
  EXPECT_THAT(refused_with(mixture, "mlp_only_layers", json::array({0})),
              HasSubstr("mlp_only_layers [0]"));
  EXPECT_THAT(refused_with(mixture, "decoder_sparse_step", 2), HasSubstr("decoder_sparse_step 2"));
}

// The names are those of Hugging Face's DeepseekV3Config, which has experts from block
// first_k_dense_replace on.
TEST(Families, LatentsAreDeepseekV3sWhereAllBlocksAreDense) {
  nn::ModelConfig model = a_model();
  model.num_kv_heads = model.num_heads;
  model.norm_epsilon = 1e-6;
  model.latent = {.on = true,
                  .kv_lora_rank = 10,
                  .q_lora_rank = 6,
                  .qk_nope_head_dim = 8,
                  .qk_rope_head_dim = 4,
                  .v_head_dim = 5};
  const json ours = json::parse(model_config_json(model, DType::kF32));
  EXPECT_EQ(ours.at("architectures"), json::array({"DeepseekV3ForCausalLM"}));
  EXPECT_EQ(ours.at("model_type"), "deepseek_v3");
  EXPECT_EQ(ours.at("kv_lora_rank"), 10);
  EXPECT_EQ(ours.at("q_lora_rank"), 6);
  EXPECT_EQ(ours.at("first_k_dense_replace"), model.num_layers);
  EXPECT_EQ(ours.at("rope_interleave"), false);
  EXPECT_EQ(parse_model_config(ours.dump(), kPath), model);
  EXPECT_THAT(refused_with(ours, "first_k_dense_replace", 1), HasSubstr("first_k_dense_replace 1"));
  EXPECT_THAT(refused_with(ours, "rope_interleave", true), HasSubstr("rope_interleave true"));
  EXPECT_THAT(refused_with(ours, "rms_norm_eps", 1e-5), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(refused_without(ours, "rope_interleave"), HasSubstr("rope_interleave"));
  json silent = ours;  // a configuration leaves out what DeepSeek-V3 has
  for (const char* width : {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                            "v_head_dim", "first_k_dense_replace"}) {
    silent.erase(width);
  }
  silent["num_hidden_layers"] = 3;
  EXPECT_EQ(parse_model_config(silent.dump(), kPath).latent,
            (nn::LatentAttention{.on = true,
                                 .kv_lora_rank = 512,
                                 .q_lora_rank = 1536,
                                 .qk_nope_head_dim = 128,
                                 .qk_rope_head_dim = 64,
                                 .v_head_dim = 128}));
  model.latent.q_lora_rank = 0;
  const json direct = json::parse(model_config_json(model, DType::kF32));
  EXPECT_TRUE(direct.at("q_lora_rank").is_null());
  EXPECT_EQ(parse_model_config(direct.dump(), kPath), model);
}

// DeepSeek-V3 chooses its experts in groups, ours are not; and no published mixture has biases of queries,
// keys and values and nothing else beside.
TEST(Families, ExpertsBehindLatentsOrBiasesAreNobodys) {
  nn::ModelConfig latent = a_model();
  latent.num_kv_heads = latent.num_heads;
  latent.latent.on = true;
  nn::ModelConfig biased = a_model();
  biased.qkv_bias = true;
  for (const nn::ModelConfig& model : {latent, biased}) {
    const std::string text =
        config_with_mixture(model_config_json(model, DType::kF32), a_mixture(), kPath);
    EXPECT_EQ(json::parse(text).at("model_type"), "ultra_scale_mixture");
    EXPECT_EQ(parse_model_config(text, kPath).latent, model.latent);
    EXPECT_EQ(parse_model_config(text, kPath).qkv_bias, model.qkv_bias);
    if (!model.qkv_bias) continue;
    EXPECT_THAT(json::parse(text).at("no_published_mixture_because"), HasSubstr("biases"));
  }
}

TEST(Families, WhereMixtralIsSilentItsOwnNumbersCount) {
  json config = json::parse(config_with_mixture(llama(), a_mixture(), kPath));
  EXPECT_THAT(refused_without(config, "num_key_value_heads"), HasSubstr("num_key_value_heads"));
  config.erase("rope_theta");
  EXPECT_EQ(parse_model_config(config.dump(), kPath).rope_theta, 1e6);
}

}  // namespace
}  // namespace ultra::checkpoint
