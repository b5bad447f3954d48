#pragma once
/// @file
/// A model by the name or the file that --plan-model gives.

#include <string>

#include "chapters/11_five_d/planner/model/model_shape.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::planner {

/// @brief Reads a `config.json` as Hugging Face writes it.
///
/// Llama's keys (num_hidden_layers, hidden_size, num_attention_heads, intermediate_size, vocab_size,
/// and num_key_value_heads, tie_word_embeddings where they are there), GPT-2's (n_layer, n_embd,
/// n_head, vocab_size, n_positions), Mixtral's num_local_experts and num_experts_per_tok,
/// DeepSeek's n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts,
/// first_k_dense_replace, topk_group (taken for nodes) and, for latent attention, kv_lora_rank, q_lora_rank, qk_nope_head_dim,
/// qk_rope_head_dim and v_head_dim.
/// @throws FileError for what is no such file, ConfigError for dimensions that make no model.
[[nodiscard]] ModelShape read_model_file(const std::string& path);

/// @brief A named model, "custom" (the model that the flags describe), or a file that ends in .json.
/// @throws ConfigError for an unknown name, with all of them; and as read_model_file().
[[nodiscard]] ModelShape model_for_plan(const std::string& name, const nn::ModelConfig& custom);

}  // namespace ultra::planner
