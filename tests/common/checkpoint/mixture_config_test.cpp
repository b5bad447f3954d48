#include "common/checkpoint/mixture_config.hpp"

#include <nlohmann/json.hpp>

#include "common/checkpoint/llama_config.hpp"
#include "tests/common/checkpoint/example_config.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kReason = "its affinities are sigmoids";

std::string llama() { return llama_config_json(a_model(), DType::kF32); }

MixtureConfig a_mixture(const std::string& unlike_mixtral = {}) {
  return {.experts = 8, .top_k = 2, .expert_ffn = 24, .unlike_mixtral = unlike_mixtral};
}

// The expected names are those of Hugging Face's MixtralConfig.
TEST(MixtureConfig, NamesEveryDimensionAsMixtralConfigDoes) {
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
TEST(MixtureConfig, OfAnotherMixtureHasATypeThatNobodyLoads) {
  const json config = json::parse(config_with_mixture(llama(), a_mixture(kReason), kPath));
  EXPECT_EQ(config.at("model_type"), "ultra_scale_mixture");
  EXPECT_EQ(config.at("architectures"), json::array({"UltraScaleMixtureForCausalLM"}));
  EXPECT_EQ(config.at("not_mixtral_because"), kReason);
  EXPECT_EQ(config.at("num_local_experts"), 8);
  EXPECT_FALSE(config.contains("router_jitter_noise"));
}

TEST(MixtureConfig, KeepsWhatAnotherProgramHasWritten) {
  json config = json::parse(llama());
  config["eos_token_id"] = {1, 2};
  config["max_position_embeddings"] = 4096;
  const json found = json::parse(config_with_mixture(config.dump(), a_mixture(), kPath));
  EXPECT_EQ(found.at("eos_token_id"), json::array({1, 2}));
  EXPECT_EQ(found.at("max_position_embeddings"), 4096);
}

TEST(MixtureConfig, OfAMixtureIsTheSameAgain) {
  for (const std::string& reason : {std::string(), std::string(kReason)}) {
    const std::string once = config_with_mixture(llama(), a_mixture(reason), kPath);
    EXPECT_EQ(config_with_mixture(once, a_mixture(reason), kPath), once);
  }
}

TEST(MixtureConfig, IsReadAsItWasWritten) {
  nn::ModelConfig model = a_model();
  model.ffn_hidden_size = 24;
  for (const std::string& reason : {std::string(), std::string(kReason)}) {
    const std::string text = config_with_mixture(llama(), a_mixture(reason), kPath);
    EXPECT_EQ(parse_llama_config(text, kPath), model);
    const auto mixture = parse_mixture(text, kPath);
    ASSERT_TRUE(mixture.has_value());
    EXPECT_EQ(mixture->is_mixtral, reason.empty());
    EXPECT_EQ(mixture->experts, 8U);
    EXPECT_EQ(mixture->top_k, 2U);
  }
  EXPECT_FALSE(parse_mixture(llama(), kPath).has_value());
}

TEST(MixtureConfig, OfMixtralIsRefusedWithWhatOurModelLacks) {
  json config = json::parse(config_with_mixture(llama(), a_mixture(), kPath));
  const auto refused = [&](const char* key, const json& value) {
    json changed = config;
    changed[key] = value;
    return message_of<FileError>(
        [&] { static_cast<void>(parse_llama_config(changed.dump(), kPath)); });
  };
  EXPECT_THAT(refused("sliding_window", 4096), HasSubstr("has sliding_window 4096"));
  EXPECT_THAT(refused("architectures", json::array({"LlamaForCausalLM"})),
              HasSubstr("has architectures"));
  config.erase("num_local_experts");
  EXPECT_THAT(
      message_of<FileError>([&] { static_cast<void>(parse_mixture(config.dump(), kPath)); }),
      AllOf(HasSubstr("'some/config.json' is damaged"),
            HasSubstr("it has no 'num_local_experts'")));
}

}  // namespace
}  // namespace ultra::checkpoint
