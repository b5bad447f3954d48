// Models from config.json files, and what is wrong with some.
//
// Covers: chapters/11_five_d/planner/model/model_file.hpp
#include "chapters/11_five_d/planner/model/model_file.hpp"

#include <gtest/gtest.h>

#include "common/base/errors.hpp"
#include "tests/chapters/11_five_d/planner/expect_message.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ultra::planner {
namespace {

class ModelFile : public ::testing::Test {
 protected:
  ModelShape read(const std::string& text) {
    return read_model_file(folder_.write("some-model/config.json", text));
  }
  template <class Thrown>
  void refuses(const std::string& text, const std::vector<std::string>& words) {
    expect_message<Thrown>([&] { (void)read(text); }, words);
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
  expect_message<ConfigError>([] { (void)model_for_plan("llama-9b", {}); },
                              {"llama-9b", "llama-8b", "config.json"});
  expect_message<FileError>([] { (void)model_for_plan("/no/such.json", {}); },
                            {"/no/such.json", "cannot be read"});
}

}  // namespace
}  // namespace ultra::planner
