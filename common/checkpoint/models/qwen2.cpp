// Qwen2 and Qwen2.5: a Llama with biases of queries, keys and values.
// Source: Hugging Face transformers, Qwen2Config and Qwen2Attention.
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

const ModelFamily kQwen2 = {
    .type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .computes = [](const nn::ModelConfig& model) { return model.qkv_bias && !model.qk_norm; },
    .read =
        [](const HubConfig& config, nn::ModelConfig& model) {
          config.expect("use_sliding_window", false);
          config.expect_said({"num_key_value_heads"});
          model.qkv_bias = true;
        },
    .write =
        [](const nn::ModelConfig& model, Json& config) {
          if (model.head_size > 0) config["head_dim"] = model.head_size;
          config["use_sliding_window"] = false;
        }};

}  // namespace ultra::checkpoint
