#include "common/checkpoint/llama_config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ultra::checkpoint {
namespace {

// The expected names are those of Hugging Face's LlamaConfig.
TEST(LlamaConfig, NamesEveryDimensionAsLlamaConfigDoes) {
  const nn::ModelConfig model{.vocab_size = 300,
                              .hidden_size = 48,
                              .num_layers = 3,
                              .num_heads = 6,
                              .num_kv_heads = 2,
                              .ffn_hidden_size = 100,
                              .max_seq_len = 77,
                              .rope_theta = 5000.0,
                              .norm_epsilon = 1e-6};
  const auto config = nlohmann::json::parse(llama_config_json(model, DType::kF32));
  const nlohmann::json expected = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"vocab_size", 300},
                                   {"hidden_size", 48},
                                   {"num_hidden_layers", 3},
                                   {"num_attention_heads", 6},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 8},
                                   {"intermediate_size", 100},
                                   {"max_position_embeddings", 77},
                                   {"rope_theta", 5000.0},
                                   {"rms_norm_eps", 1e-6},
                                   {"hidden_act", "silu"},
                                   {"attention_bias", false},
                                   {"mlp_bias", false},
                                   {"tie_word_embeddings", false},
                                   {"bos_token_id", nullptr},
                                   {"eos_token_id", nullptr},
                                   {"torch_dtype", "float32"}};
  EXPECT_EQ(config, expected);
  EXPECT_EQ(nlohmann::json::parse(llama_config_json(model, DType::kF64)).at("torch_dtype"),
            "float64");
}

}  // namespace
}  // namespace ultra::checkpoint
