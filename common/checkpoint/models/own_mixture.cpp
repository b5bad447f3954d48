// Mixtures of experts that the code of published ones would compute otherwise: a config.json that said
// one of their names would be loaded without a word, and be wrong. So it has a name that no program
// loads, and says why.
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

const ModelFamily kOwnMixture = {
    .type = "ultra_scale_mixture",
    .architecture = "UltraScaleMixtureForCausalLM",
    .computes = [](const nn::ModelConfig&) { return true; },
    .read =
        [](const HubConfig& config, nn::ModelConfig& model) {
          const auto has = [&](const char* name) {
            return !config.member(name).is_null() &&
                   member_in<bool>(config.json(), name, "true or false");
          };
          model.qkv_bias = has("qkv_bias");
          model.qk_norm = has("qk_norm");
          model.sliding_window = config.size_or("sliding_window", 0);
          if (config.member("kv_lora_rank").is_null()) return;
          model.latent = read_latents(config);
          model.head_size = 0;
        },
    .write =
        [](const nn::ModelConfig& model, Json& config) {
          config["head_dim"] = model.head_dim();
          if (model.qkv_bias) config["qkv_bias"] = true;
          if (model.qk_norm) config["qk_norm"] = true;
          if (model.sliding_window > 0) config["sliding_window"] = model.sliding_window;
          if (model.latent.on) write_latents(model.latent, config);
        },
    .experts = {.names = {.part = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"},
                .count = "num_local_experts",
                .write = [](const MixtureConfig& mixture, Json& config) {
                  config["intermediate_size"] = mixture.expert_ffn;
                  config["num_local_experts"] = mixture.experts;
                  config["num_experts_per_tok"] = mixture.top_k;
                  config["no_published_mixture_because"] = mixture.unlike_published;
                }}};

}  // namespace ultra::checkpoint
