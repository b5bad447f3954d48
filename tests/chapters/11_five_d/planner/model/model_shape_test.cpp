// Shapes of models, from the book's list and from files.
//
// Covers: chapters/11_five_d/planner/model/model_shape.hpp
// Covers: chapters/11_five_d/planner/model/model_file.hpp

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "chapters/11_five_d/planner/model/model_file.hpp"
#include "chapters/11_five_d/planner/model/model_shape.hpp"
#include "common/base/errors.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"

namespace ultra::planner {
namespace {

const ModelShape& called(const char* name) {
  const ModelShape* model = find_model(name);
  EXPECT_NE(model, nullptr) << name;
  return *model;
}

TEST(ModelShapes, ParametersOfPublishedModels) {
  EXPECT_EQ(parameters_of(called("llama-8b")), 8030261248.0);
  EXPECT_EQ(parameters_of(called("llama-70b")), 70553706496.0);
  EXPECT_EQ(parameters_of(called("llama-405b")), 405853388800.0);
  EXPECT_EQ(parameters_of(called("llama2-7b")), 6738415616.0);
  // What transformers' DeepseekV3ForCausalLM has by its default configuration, and the 256 biases of the
  // selection in each of 58 blocks, which it keeps beside its parameters.
  EXPECT_EQ(parameters_of(called("deepseek-v3")), 671026404352.0 + 58 * 256);
}

TEST(ModelShapes, MegatronsTableOneRoundsToItsSizes) {
  // Narayanan et al. 2021, table 1, in billions as printed.
  const std::array<std::pair<const char*, double>, 10> sizes = {{{"megatron-1.7b", 1.7},
                                                                 {"megatron-3.6b", 3.6},
                                                                 {"megatron-7.5b", 7.5},
                                                                 {"megatron-18b", 18.4},
                                                                 {"megatron-39b", 39.1},
                                                                 {"megatron-76b", 76.1},
                                                                 {"megatron-145b", 145.6},
                                                                 {"megatron-310b", 310.1},
                                                                 {"megatron-530b", 529.6},
                                                                 {"megatron-1t", 1008.0}}};
  for (const auto& [name, billions] : sizes) {
    EXPECT_NEAR(parameters_of(called(name)) / 1e9, billions, 0.055 + 1e-4 * billions) << name;
  }
}

TEST(ModelShapes, ThePlaybooksAxis) {
  EXPECT_NEAR(parameters_of(called("nanotron-1.34b")), 1.342e9, 1e6);
  EXPECT_NEAR(parameters_of(called("nanotron-3.57b")), 3.574e9, 1e6);
  EXPECT_NEAR(parameters_of(called("nanotron-8.86b")), 8.858e9, 1e6);
  EXPECT_NEAR(parameters_of(called("nanotron-80b")), 79.994e9, 1e7);
}

TEST(ModelShapes, FlopsAsMegatronCountsThem) {
  // 72 B L s h^2 (1 + s / 6h + V / 12 h L), Korthikanti et al. 2022, appendix A.
  for (const char* name : {"megatron-22b", "megatron-175b", "megatron-1t"}) {
    const memory::TransformerShape& s = called(name).shape();
    const auto h = static_cast<double>(s.hidden_size);
    const auto l = static_cast<double>(s.num_layers);
    const auto v = static_cast<double>(s.vocab_size);
    const double expected = 72 * l * h * h * (1 + 2048 / (6 * h) + v / (12 * h * l));
    EXPECT_NEAR(model_flop_per_token(called(name), 2048) / expected, 1, 1e-12) << name;
  }
}

TEST(ModelShapes, ExpertsThatATokenDoesNotChooseAreNotMultiplied) {
  // Published: 37 billion activated, with both tables 37.55 (without the input table 36.63).
  EXPECT_NEAR(multiplied_parameters(called("deepseek-v3")), 36.63e9, 0.02e9);
}

TEST(ModelShapes, NamesAreFoundWithoutCaseAndOnce) {
  EXPECT_EQ(find_model("LLAMA-8B"), find_model("llama-8b"));
  EXPECT_EQ(find_model("llama-9b"), nullptr);
  std::set<std::string> names;
  for (const ModelShape& model : named_models()) {
    EXPECT_TRUE(names.insert(model.shape().name).second) << model.shape().name;
  }
}

class ModelFile : public ::testing::Test {
 protected:
  ModelShape read(const std::string& text) {
    return read_model_file(folder_.write("some-model/config.json", text));
  }
  template <class Thrown>
  void refuses(const std::string& text, const std::vector<std::string>& words) {
    test::expect_message<Thrown>([&] { (void)read(text); }, words);
  }

  ultra::test::TemporaryFolder folder_;
};

const std::string kLlama = R"("num_hidden_layers": 32, "hidden_size": 4096,
  "num_attention_heads": 32, "vocab_size": 128256, "intermediate_size": 14336)";

TEST_F(ModelFile, LlamasKeys) {
  const ModelShape model = read("{" + kLlama + R"(, "num_key_value_heads": 8, "other": [1]})");
  EXPECT_EQ(model.shape().name, "some-model");
  EXPECT_EQ(parameters_of(model), 8030261248.0);
  EXPECT_EQ(model.layers.dense_blocks, 32U);
}

TEST_F(ModelFile, Gpt2sKeys) {
  const ModelShape model = read(
      R"({"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 1024})");
  EXPECT_EQ(parameters_of(model), 124439808.0);
}

TEST_F(ModelFile, MixtralsAndDeepseeksKeys) {
  const ModelShape mixtral = read(
      R"({"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
          "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
          "num_local_experts": 8, "num_experts_per_tok": 2})");
  EXPECT_EQ(parameters_of(mixtral), parameters_of(*find_model("mixtral-8x7b")));
  const ModelShape deepseek = read(
      R"({"num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
          "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280,
          "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
          "n_shared_experts": 1, "topk_group": 4, "first_k_dense_replace": 3, "q_lora_rank": 1536,
          "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
          "v_head_dim": 128})");
  const ModelShape& named = *find_model("deepseek-v3");
  EXPECT_EQ(multiplied_parameters(deepseek), multiplied_parameters(named));
  EXPECT_EQ(deepseek.attention_width(), named.attention_width());
  EXPECT_EQ(deepseek.most_nodes, 4U);
  EXPECT_EQ(named.most_nodes, 4U);
  EXPECT_EQ(mixtral.most_nodes, 0U);
}

TEST_F(ModelFile, WhatIsMissingOrWrongIsNamed) {
  refuses<FileError>(R"({"hidden_size": 8})", {"lacks \"num_attention_heads\"", "hidden_size"});
  refuses<FileError>("{" + kLlama + R"(, "num_key_value_heads": -8})",
                     {"\"num_key_value_heads\" is '-8'", "a whole number above 0"});
  refuses<FileError>("{" + kLlama + R"(, "num_key_value_heads": "many"})",
                     {"num_key_value_heads", "many", "a whole number above 0"});
  refuses<FileError>("{" + kLlama + R"(, "tie_word_embeddings": 1})",
                     {"tie_word_embeddings", "true or false"});
  refuses<ConfigError>("{" + kLlama + R"(, "num_key_value_heads": 5})",
                       {"num_attention_heads 32 must be a multiple of num_key_value_heads 5"});
  refuses<ConfigError>("{" + kLlama + R"(, "num_local_experts": 4, "num_experts_per_tok": 5})",
                       {"num_experts_per_tok 5 must be at most the experts, 4"});
  refuses<FileError>("{" + kLlama + R"(, "num_key_value_heads": 100000000})",
                     {"\"num_key_value_heads\" is 100000000", "No model has more than"});
  refuses<ConfigError>(
      "{" + kLlama + R"(, "num_local_experts": 9999999, "num_experts_per_tok": 5})",
      {"parameters are more than any model has"});
  refuses<FileError>("no json", {"holds no JSON"});
  refuses<FileError>("[1]", {"must be an object"});
}

TEST(ModelForPlan, NamesFilesAndOurOwn) {
  EXPECT_EQ(parameters_of(model_for_plan("llama-8b", {})), 8030261248.0);
  const ModelShape custom = model_for_plan("custom", {});
  EXPECT_EQ(custom.shape().num_layers, nn::ModelConfig{}.num_layers);
  test::expect_message<ConfigError>([] { (void)model_for_plan("llama-9b", {}); },
                                    {"llama-9b", "llama-8b", "config.json"});
  test::expect_message<FileError>([] { (void)model_for_plan("/no/such.json", {}); },
                                  {"/no/such.json", "cannot be read"});
}

}  // namespace
}  // namespace ultra::planner
