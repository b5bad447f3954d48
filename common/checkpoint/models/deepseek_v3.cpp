// DeepSeek-V3 as far as all of its blocks are dense: multi-head latent attention. Its experts are
// chosen in groups of nodes, which ours are not.
// Source: Hugging Face transformers, DeepseekV3Config and DeepseekV3Attention.
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {
namespace {

/// Its code norms latents with this epsilon, whatever config.json says of the other norms.
constexpr double kLatentEpsilon = 1e-6;

/// Blocks without experts, where config.json does not say it.
constexpr std::size_t kDenseBlocks = 3;

}  // namespace

void write_latents(const nn::LatentAttention& latent, Json& config) {
  config["kv_lora_rank"] = latent.kv_lora_rank;
  config["q_lora_rank"] = nullptr;
  if (latent.q_lora_rank > 0) config["q_lora_rank"] = latent.q_lora_rank;
  config["qk_nope_head_dim"] = latent.qk_nope_head_dim;
  config["qk_rope_head_dim"] = latent.qk_rope_head_dim;
  config["v_head_dim"] = latent.v_head_dim;
}

nn::LatentAttention read_latents(const HubConfig& config) {
  const bool says_none =
      config.json().contains("q_lora_rank") && config.member("q_lora_rank").is_null();
  return {.on = true,
          .kv_lora_rank = config.size_or("kv_lora_rank", 512),
          .q_lora_rank = says_none ? 0 : config.size_or("q_lora_rank", 1536),
          .qk_nope_head_dim = config.size_or("qk_nope_head_dim", 128),
          .qk_rope_head_dim = config.size_or("qk_rope_head_dim", 64),
          .v_head_dim = config.size_or("v_head_dim", 128)};
}

const ModelFamily kDeepseekV3 = {
    .type = "deepseek_v3",
    .architecture = "DeepseekV3ForCausalLM",
    .computes = [](const nn::ModelConfig& model) { return model.latent.on; },
    .read =
        [](const HubConfig& config, nn::ModelConfig& model) {
          config.expect("attention_bias", false);
          config.expect_said({"rope_interleave"});
          config.expect("rope_interleave", false);
          config.expect("first_k_dense_replace",
                        Json(config.size_or("first_k_dense_replace", kDenseBlocks)),
                        model.num_layers);
          config.expect("rms_norm_eps", kLatentEpsilon);
          model.latent = read_latents(config);
          model.head_size = 0;  // head_dim is that of the rotated part there
        },
    .write =
        [](const nn::ModelConfig& model, Json& config) {
          write_latents(model.latent, config);
          config["head_dim"] = model.latent.qk_rope_head_dim;
          config["attention_bias"] = false;
          config["rope_interleave"] = false;
          config["first_k_dense_replace"] = model.num_layers;
          config["num_nextn_predict_layers"] = 0;
        }};

}  // namespace ultra::checkpoint
