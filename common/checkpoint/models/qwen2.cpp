// Qwen2 and Qwen2.5: a Llama with biases of queries, keys and values.
// Source: Hugging Face transformers, Qwen2Config and Qwen2Attention.
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

void write_qwen_window(const nn::ModelConfig& model, Json& config) {
  config["use_sliding_window"] = model.sliding_window > 0;
  if (model.sliding_window == 0) return;
  config["sliding_window"] = model.sliding_window;
  config["max_window_layers"] = 0;  // layers before the first with a window
}

void read_qwen_window(const HubConfig& config, nn::ModelConfig& model) {
  if (!(config.member("use_sliding_window") == Json(true))) {
    return config.expect("use_sliding_window", false);
  }
  config.expect_said({"sliding_window", "max_window_layers"});
  config.expect("max_window_layers", 0);
  model.sliding_window = config.size_or("sliding_window", 0);
}

const ModelFamily kQwen2 = {
    .type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .computes = [](const nn::ModelConfig& model) { return model.qkv_bias && !model.qk_norm; },
    .read =
        [](const HubConfig& config, nn::ModelConfig& model) {
          read_qwen_window(config, model);
          config.expect_said({"num_key_value_heads"});
          model.qkv_bias = true;
        },
    .write =
        [](const nn::ModelConfig& model, Json& config) {
          if (model.head_size > 0) config["head_dim"] = model.head_size;
          write_qwen_window(model, config);
        }};

}  // namespace ultra::checkpoint
