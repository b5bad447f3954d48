#include "common/checkpoint/models/config_json.hpp"

#include <nlohmann/json.hpp>

#include "tests/common/checkpoint/example_config.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

/// The message about a config.json with another value; without it if there is none.
std::string refused(const char* key, const nlohmann::json& value) {
  auto config = nlohmann::json::parse(model_config_json(a_model(), DType::kF32));
  config[key] = value;
  if (value.is_discarded()) config.erase(key);
  return test::message_of<FileError>(
      [&] { static_cast<void>(parse_model_config(config.dump(), kPath)); });
}

// The expected names are those of Hugging Face's LlamaConfig.
TEST(ConfigJson, NamesEveryDimensionAsLlamaConfigDoes) {
  const nn::ModelConfig model = a_model();
  const auto config = nlohmann::json::parse(model_config_json(model, DType::kF32));
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
  EXPECT_EQ(nlohmann::json::parse(model_config_json(model, DType::kF64)).at("torch_dtype"),
            "float64");
}

TEST(ConfigJson, IsReadAsItWasWritten) {
  const auto expect_itself = [](const nn::ModelConfig& model) {
    EXPECT_EQ(parse_model_config(model_config_json(model, DType::kF64), kPath), model);
  };
  for (const bool tied : {false, true}) {
    nn::ModelConfig model = a_model();
    model.tied_embeddings = tied;
    expect_itself(model);
    model.head_size = 10;
    expect_itself(model);
    model.qkv_bias = true;
    expect_itself(model);
    model.qkv_bias = false;
    model.qk_norm = true;
    expect_itself(model);
    model.rope_scaling = {.factor = 8, .original_positions = 40};
    expect_itself(model);
    model.sliding_window = 5;
    expect_itself(model);
    model.qk_norm = false;
    expect_itself(model);
    model.qkv_bias = true;
    expect_itself(model);
    model.mtp = true;
    expect_itself(model);
  }
}

// DeepSeek-V3's name for it, in any family.
TEST(ConfigJson, SaysWhetherAModuleForTheTokenAfterNextIsThere) {
  nn::ModelConfig model = a_model();
  const auto count_in = [&] {
    return nlohmann::json::parse(model_config_json(model, DType::kF32))
        .value("num_nextn_predict_layers", -1);
  };
  EXPECT_EQ(count_in(), -1);
  model.mtp = true;
  EXPECT_EQ(count_in(), 1);
  model.num_kv_heads = model.num_heads;
  model.latent.on = true;
  EXPECT_EQ(count_in(), 1);
  EXPECT_THAT(refused("num_nextn_predict_layers", 2), HasSubstr("num_nextn_predict_layers"));
}

// What transformers 5 writes: rope_parameters, dtype, and no member that has its default value.
TEST(ConfigJson, OfAnotherProgramIsRead) {
  const nlohmann::json config = {
      {"model_type", "llama"},
      {"hidden_size", 48},
      {"intermediate_size", 100},
      {"num_hidden_layers", 3},
      {"num_attention_heads", 6},
      {"vocab_size", 300},
      {"max_position_embeddings", 77},
      {"rms_norm_eps", 1e-6},
      {"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}},
      {"rope_scaling", nullptr},
      {"hidden_act", "silu"},
      {"head_dim", 8},
      {"attention_dropout", 0.0},
      {"pad_token_id", nullptr},
      {"dtype", "bfloat16"}};
  nn::ModelConfig expected = a_model();
  expected.num_kv_heads = 6;
  expected.rope_theta = 5e5;
  EXPECT_EQ(parse_model_config(config.dump(), kPath), expected);
}

TEST(ConfigJson, IsRefusedWithTheReason) {
  const nlohmann::json none(nlohmann::json::value_t::discarded);
  EXPECT_THAT(refused("model_type", "gpt2"),
              AllOf(HasSubstr("'some/config.json'"), HasSubstr("model_type \"gpt2\""),
                    HasSubstr("\"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"deepseek_v3\"")));
  for (const char* key : {"model_type", "hidden_size", "rms_norm_eps", "vocab_size"}) {
    EXPECT_THAT(refused(key, none), HasSubstr(key));
  }
  EXPECT_THAT(refused("num_hidden_layers", -3), HasSubstr("'num_hidden_layers' is -3"));
  EXPECT_THAT(refused("num_attention_heads", 0), HasSubstr("'num_attention_heads' is 0"));
  EXPECT_THAT(refused("hidden_size", std::string(100'000, 'x')).size(), ::testing::Lt(500U));
  auto config = nlohmann::json::parse(model_config_json(a_model(), DType::kF32));
  config.erase("head_dim");
  config["num_attention_heads"] = 4000;
  EXPECT_THAT(
      message_of<FileError>([&] { static_cast<void>(parse_model_config(config.dump(), kPath)); }),
      AllOf(StartsWith("'some/config.json' has no head_dim"),
            HasSubstr("num_attention_heads, 4000"), HasSubstr("hidden_size, 48")));
}

// With these no loss is finite, and the training would be blamed.
TEST(ConfigJson, NumbersThatCanOnlyFailAreRefusedByName) {
  for (const double theta : {0.0, -1.0, 1e-320}) {
    EXPECT_THAT(refused("rope_theta", theta),
                AllOf(StartsWith("'some/config.json' has rope_theta "), HasSubstr("above 0")))
        << theta;
  }
  EXPECT_THAT(refused("rms_norm_eps", -1),
              AllOf(StartsWith("'some/config.json' has rms_norm_eps -1"), HasSubstr("expected 0")));
  EXPECT_THAT(refused("rms_norm_eps", -1e-9), HasSubstr("rms_norm_eps -1e-09"));
  auto config = nlohmann::json::parse(model_config_json(a_model(), DType::kF32));
  config["rms_norm_eps"] = 0;
  config["rope_theta"] = 1;
  EXPECT_EQ(parse_model_config(config.dump(), kPath).norm_epsilon, 0.0);
}

TEST(ConfigJson, AMemberOfAnotherTypeIsNamed) {
  EXPECT_THAT(refused("rms_norm_eps", "1e-5"),
              HasSubstr("'rms_norm_eps' is \"1e-5\", expected a number."));
  EXPECT_THAT(refused("rope_theta", true), HasSubstr("'rope_theta' is true, expected a number."));
  EXPECT_THAT(refused("tie_word_embeddings", "no"),
              HasSubstr("'tie_word_embeddings' is \"no\", expected true or false."));
  const auto whole = [](const char* text) {
    return message_of<FileError>([&] { static_cast<void>(parse_model_config(text, kPath)); });
  };
  EXPECT_THAT(whole("null"), HasSubstr("null stands where an object belongs."));
  EXPECT_THAT(whole("{"), AllOf(HasSubstr("'some/config.json' is damaged"),
                                HasSubstr("Take another copy"), Not(HasSubstr("checkpoint"))));
}

TEST(ConfigJson, WhatOurModelLacksIsRefusedByName) {
  const std::pair<const char*, nlohmann::json> lacking[] = {
      {"attention_bias", true},
      {"mlp_bias", true},
      {"hidden_act", "gelu"},
      {"attention_dropout", 0.1},
      {"partial_rotary_factor", 0.5},
      {"quantization_config", {{"quant_method", "gptq"}}},
      {"architectures", {"LlamaForSequenceClassification"}},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
      {"rope_parameters", {{"rope_type", "yarn"}}},
      {"layer_types", {"full_attention", "sliding_attention"}}};
  for (const auto& [key, value] : lacking) {
    EXPECT_THAT(refused(key, value),
                AllOf(StartsWith("'some/config.json' has "), HasSubstr(key), HasSubstr("only")));
  }
  EXPECT_THAT(refused("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}),
              AllOf(HasSubstr("rope_scaling.rope_type \"yarn\""), HasSubstr("\"default\" only")));
}

// That of Llama 3.2 with one billion parameters: its rope_scaling, and heads as wide as they are.
TEST(ConfigJson, ScaledRotationsAreRead) {
  auto config = nlohmann::json::parse(model_config_json(a_model(), DType::kF32));
  nlohmann::json scaling = {{"factor", 32.0},
                            {"high_freq_factor", 4.0},
                            {"low_freq_factor", 1.0},
                            {"original_max_position_embeddings", 8192},
                            {"rope_type", "llama3"}};
  config["rope_scaling"] = scaling;
  nn::ModelConfig expected = a_model();
  expected.rope_scaling = {.factor = 32,
                           .low_frequency_factor = 1,
                           .high_frequency_factor = 4,
                           .original_positions = 8192};
  EXPECT_EQ(parse_model_config(config.dump(), kPath), expected);
  config["rope_scaling"] = nullptr;  // transformers 5 has moved it
  config["rope_parameters"] = scaling;
  config["rope_parameters"]["rope_theta"] = 5000.0;
  EXPECT_EQ(parse_model_config(config.dump(), kPath), expected);
  scaling["high_freq_factor"] = 1.0;
  EXPECT_THAT(refused("rope_scaling", scaling),
              AllOf(HasSubstr("has rope_scaling"), HasSubstr("above the low one")));
  scaling.erase("factor");
  EXPECT_THAT(refused("rope_scaling", scaling), HasSubstr("'factor'"));
}

TEST(ConfigJson, KeepsWhatItWasButForTheTypeOfTheWeights) {
  const std::string text = R"({"vocab_size": 7, "dtype": "bfloat16", "eos_token_id": [1, 2]})";
  const auto config = nlohmann::json::parse(config_with_dtype(text, DType::kF64, kPath));
  EXPECT_EQ(config, nlohmann::json::parse(
                        R"({"vocab_size": 7, "dtype": "float64", "eos_token_id": [1, 2]})"));
  EXPECT_THAT(
      message_of<FileError>([] { static_cast<void>(config_with_dtype("[]", DType::kF32, kPath)); }),
      HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace ultra::checkpoint
