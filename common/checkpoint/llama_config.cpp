#include "common/checkpoint/llama_config.hpp"

#include <nlohmann/json.hpp>

namespace ultra::checkpoint {

std::string llama_config_json(const nn::ModelConfig& model, DType dtype) {
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.ffn_hidden_size},
      {"num_hidden_layers", model.num_layers},
      {"num_attention_heads", model.num_heads},
      {"num_key_value_heads", model.num_kv_heads},
      {"head_dim", model.head_dim()},
      {"vocab_size", model.vocab_size},
      {"max_position_embeddings", model.max_seq_len},
      {"rope_theta", model.rope_theta},
      {"rms_norm_eps", model.norm_epsilon},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", false},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"torch_dtype", dtype == DType::kF64 ? "float64" : "float32"}};
  return config.dump(2) + "\n";
}

}  // namespace ultra::checkpoint
