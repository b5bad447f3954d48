#include "chapters/08_expert_parallel/moe/moe_models.hpp"

#include "chapters/01_memory/model_presets.hpp"

namespace ultra::expert_parallel {

MoeParameters parameter_counts(const MoeModel& model) {
  memory::TransformerShape without = model.shape;  // feed-forward parts
  without.ffn_hidden_size = 0;
  std::size_t shared = memory::parameter_count(without);
  if (model.attention_parameters) {
    const std::size_t h = model.shape.hidden_size;
    shared -= model.shape.num_layers * 2 * h * (h + model.shape.kv_hidden_size());
    shared += model.shape.num_layers * *model.attention_parameters;
  }
  const MoeConfig& moe = model.moe;
  const std::size_t expert = 3 * model.shape.hidden_size * moe.expert_ffn;
  shared += model.dense_blocks * 3 * model.shape.hidden_size * model.shape.ffn_hidden_size;
  const std::size_t biases = moe.balance == Balance::kBias ? moe.num_experts : 0;
  shared += model.moe_blocks() *
            (moe.shared_experts * expert + moe.num_experts * model.shape.hidden_size + biases);
  const std::size_t routed = model.moe_blocks() * moe.num_experts * expert;
  return {.total = shared + routed,
          .active = shared + model.moe_blocks() * moe.top_k * expert,
          .routed = routed};
}

std::size_t parameter_count(const nn::LatentAttention& latent, std::size_t heads,
                            std::size_t hidden) {
  const std::size_t rank = latent.q_lora_rank;
  const std::size_t queries = heads * latent.qk_head_dim();
  const std::size_t query = rank == 0 ? hidden * queries : hidden * rank + rank + rank * queries;
  const std::size_t key_value =
      hidden * latent.cached() + latent.kv_lora_rank +
      latent.kv_lora_rank * heads * (latent.qk_nope_head_dim + latent.v_head_dim);
  return query + key_value + heads * latent.v_head_dim * hidden;
}

const std::vector<MoeModel>& published_moe_models() {
  static const std::vector<MoeModel> models = {
      {.shape = {.name = "mixtral-8x7b",
                 .num_layers = 32,
                 .hidden_size = 4096,
                 .num_heads = 32,
                 .num_kv_heads = 8,
                 .ffn_hidden_size = 14336,
                 .vocab_size = 32000},
       .moe = {.num_experts = 8, .top_k = 2, .expert_ffn = 14336}},
      {.shape = {.name = "deepseek-v3",
                 .num_layers = 61,
                 .hidden_size = 7168,
                 .num_heads = 128,
                 .num_kv_heads = 128,
                 .ffn_hidden_size = 18432,
                 .vocab_size = 129280},
       .moe = {.num_experts = 256,
               .top_k = 8,
               .expert_ffn = 2048,
               .shared_experts = 1,
               .router = RouterKind::kSigmoid,
               .balance = Balance::kBias},
       .dense_blocks = 3,
       .attention_parameters = parameter_count({.on = true,
                                                .kv_lora_rank = 512,
                                                .q_lora_rank = 1536,
                                                .qk_nope_head_dim = 128,
                                                .qk_rope_head_dim = 64,
                                                .v_head_dim = 128},
                                               128, 7168)}};
  return models;
}

const std::vector<TrainableMoeModel>& trainable_moe_models() {
  static const std::vector<TrainableMoeModel> models = [] {
    const MoeModel& mixtral = published_moe_models().front();
    return std::vector<TrainableMoeModel>{
        {.dense = {mixtral.shape.name, memory::config_of(mixtral.shape)}, .moe = mixtral.moe},
        {.dense = {"qwen3-30b-a3b",
                   {.vocab_size = 151936,
                    .hidden_size = 2048,
                    .num_layers = 48,
                    .num_heads = 32,
                    .num_kv_heads = 4,
                    .ffn_hidden_size = 6144,
                    .head_size = 128,
                    .qk_norm = true}},
         .moe = {.num_experts = 128, .top_k = 8, .expert_ffn = 768}}};
  }();
  return models;
}

}  // namespace ultra::expert_parallel
