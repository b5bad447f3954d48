// Mistral: a Llama whose tokens see a window of those before them. From its version 0.2 on it has none,
// and is read as a Llama.
// Source: Hugging Face transformers, MistralConfig; Jiang et al. 2023, "Mistral 7B", arXiv 2310.06825.
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

const ModelFamily kMistral = {.type = "mistral",
                              .architecture = "MistralForCausalLM",
                              .computes =
                                  [](const nn::ModelConfig& model) {
                                    return model.sliding_window > 0 && !model.latent.on &&
                                           !model.qkv_bias && !model.qk_norm;
                                  },
                              .read =
                                  [](const HubConfig& config, nn::ModelConfig& model) {
                                    for (const char* bias : {"attention_bias", "mlp_bias"})
                                      config.expect(bias, false);
                                    config.expect_said({"num_key_value_heads", "sliding_window"});
                                    model.sliding_window = config.size_or("sliding_window", 0);
                                  },
                              .write =
                                  [](const nn::ModelConfig& model, Json& config) {
                                    config["head_dim"] = model.head_dim();
                                    config["sliding_window"] = model.sliding_window;
                                  }};

}  // namespace ultra::checkpoint
