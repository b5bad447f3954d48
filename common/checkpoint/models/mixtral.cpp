// Mixtral: a Llama whose feed-forward parts are experts.
// Source: Hugging Face transformers, MixtralConfig and MixtralSparseMoeBlock.
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

const ModelFamily kMixtral = {
    .type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .computes =
        [](const nn::ModelConfig& model) {
          return !model.latent.on && !model.qkv_bias && !model.qk_norm;
        },
    .read =
        [](const HubConfig& config, nn::ModelConfig& model) {
          for (const char* bias : {"attention_bias", "mlp_bias"}) config.expect(bias, false);
          model.sliding_window = config.size_or("sliding_window", 0);
          config.expect_said({"num_key_value_heads"});
        },
    .write =
        [](const nn::ModelConfig& model, Json& config) {
          config["head_dim"] = model.head_dim();
          config["sliding_window"] = nullptr;
          if (model.sliding_window > 0) config["sliding_window"] = model.sliding_window;
        },
    .experts = {.names = {.part = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"},
                .count = "num_local_experts",
                .write =
                    [](const MixtureConfig& mixture, Json& config) {
                      config["intermediate_size"] = mixture.expert_ffn;
                      config["num_local_experts"] = mixture.experts;
                      config["num_experts_per_tok"] = mixture.top_k;
                      config["router_jitter_noise"] = 0.0;
                      // Its balancing term is another one than ours.
                      config["output_router_logits"] = false;
                    }},
    .default_rope_theta = 1e6};

}  // namespace ultra::checkpoint
