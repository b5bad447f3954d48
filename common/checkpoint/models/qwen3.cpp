// Qwen3, dense and with experts: a Llama with norms of queries and keys, and heads of a width of their
// own.
// Source: Hugging Face transformers, Qwen3Config and Qwen3Attention; Qwen3MoeConfig and
// Qwen3MoeSparseMoeBlock.
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {
namespace {

bool is_qwen3(const nn::ModelConfig& model) { return model.qk_norm && !model.qkv_bias; }

void read_qwen3(const HubConfig& config, nn::ModelConfig& model) {
  config.expect("attention_bias", false);
  read_qwen_window(config, model);
  config.expect_said({"num_key_value_heads", "head_dim"});
  model.qk_norm = true;
}

void write_qwen3(const nn::ModelConfig& model, Json& config) {
  config["head_dim"] = model.head_dim();
  config["attention_bias"] = false;
  write_qwen_window(model, config);
}

}  // namespace

const ModelFamily kQwen3 = {.type = "qwen3",
                            .architecture = "Qwen3ForCausalLM",
                            .computes = is_qwen3,
                            .read = read_qwen3,
                            .write = write_qwen3};

const ModelFamily kQwen3Moe = {
    .type = "qwen3_moe",
    .architecture = "Qwen3MoeForCausalLM",
    .computes = is_qwen3,
    .read =
        [](const HubConfig& config, nn::ModelConfig& model) {
          read_qwen3(config, model);
          config.expect("decoder_sparse_step", 1);
          config.expect("mlp_only_layers", Json::array());
          config.expect_said({"norm_topk_prob"});
          config.expect("norm_topk_prob", true);
          model.ffn_hidden_size = config.size("moe_intermediate_size");
        },
    .write = write_qwen3,
    .experts = {.names = {.part = "mlp", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"},
                .count = "num_experts",
                .other_count = "num_local_experts",  // transformers 5
                .write = [](const MixtureConfig& mixture, Json& config) {
                  config["moe_intermediate_size"] = mixture.expert_ffn;
                  config.erase("num_local_experts");
                  config["num_experts"] = mixture.experts;
                  config["num_experts_per_tok"] = mixture.top_k;
                  config["norm_topk_prob"] = true;
                  config["decoder_sparse_step"] = 1;
                  config["mlp_only_layers"] = Json::array();
                  // Its balancing term is another one than ours.
                  config["output_router_logits"] = false;
                }}};

}  // namespace ultra::checkpoint
