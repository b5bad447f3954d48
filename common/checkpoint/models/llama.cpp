// Llama, from Llama 2 to 3.2: the model that all others here are variants of.
// Source: Hugging Face transformers, LlamaConfig.
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

const ModelFamily kLlama = {.type = "llama",
                            .architecture = "LlamaForCausalLM",
                            .computes =
                                [](const nn::ModelConfig& model) {
                                  return model.sliding_window == 0 && !model.latent.on &&
                                         !model.qkv_bias && !model.qk_norm;
                                },
                            .read =
                                [](const HubConfig& config, nn::ModelConfig&) {
                                  for (const char* bias : {"attention_bias", "mlp_bias"})
                                    config.expect(bias, false);
                                },
                            .write =
                                [](const nn::ModelConfig& model, Json& config) {
                                  config["head_dim"] = model.head_dim();
                                  for (const char* bias : {"attention_bias", "mlp_bias"})
                                    config[bias] = false;
                                }};

}  // namespace ultra::checkpoint
