#include "common/checkpoint/llama_config.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kPath = "some/config.json";

nn::ModelConfig a_model() {
  return {.vocab_size = 300,
          .hidden_size = 48,
          .num_layers = 3,
          .num_heads = 6,
          .num_kv_heads = 2,
          .ffn_hidden_size = 100,
          .max_seq_len = 77,
          .rope_theta = 5000.0,
          .norm_epsilon = 1e-6};
}

/// The message about a config.json with another value; without it if there is none.
std::string refused(const char* key, const nlohmann::json& value) {
  auto config = nlohmann::json::parse(llama_config_json(a_model(), DType::kF32));
  config[key] = value;
  if (value.is_discarded()) config.erase(key);
  return test::message_of<FileError>(
      [&] { static_cast<void>(parse_llama_config(config.dump(), kPath)); });
}

// The expected names are those of Hugging Face's LlamaConfig.
TEST(LlamaConfig, NamesEveryDimensionAsLlamaConfigDoes) {
  const nn::ModelConfig model = a_model();
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

TEST(LlamaConfig, IsReadAsItWasWritten) {
  for (const bool tied : {false, true}) {
    nn::ModelConfig model = a_model();
    model.tied_embeddings = tied;
    EXPECT_EQ(parse_llama_config(llama_config_json(model, DType::kF64), kPath), model);
  }
}

TEST(LlamaConfig, IsRefusedWithTheReason) {
  const nlohmann::json none(nlohmann::json::value_t::discarded);
  EXPECT_THAT(refused("model_type", "gpt2"),
              AllOf(HasSubstr("'some/config.json'"), HasSubstr("model_type is \"gpt2\"")));
  for (const char* key : {"model_type", "hidden_size", "rope_theta", "tie_word_embeddings"}) {
    EXPECT_THAT(refused(key, none), HasSubstr(key));
  }
  EXPECT_THAT(refused("num_hidden_layers", -3), HasSubstr("'num_hidden_layers' is -3"));
  EXPECT_THAT(refused("num_attention_heads", 0), HasSubstr("'num_attention_heads' is 0"));
  EXPECT_THAT(refused("hidden_size", std::string(100'000, 'x')).size(), ::testing::Lt(500U));
}

}  // namespace
}  // namespace ultra::checkpoint
