#pragma once
/// @file
/// Published models that ours can be, by name.

#include <string>
#include <vector>

#include "common/nn/model_config.hpp"

namespace ultra::nn {

/// @brief A published model.
struct NamedModel {
  std::string name;    ///< "llama-8b"
  ModelConfig config;  ///< its dimensions; the length of sequences is a training's
};

/// @brief Dense models, family by family, the smallest first.
///
/// Sources: the `config.json` of meta-llama/Llama-3.2-1B, Llama-2-7b-hf, Meta-Llama-3-8B,
/// Meta-Llama-3-70B and Llama-3.1-405B on Hugging Face (`num_hidden_layers`, `hidden_size`,
/// `num_attention_heads`, `num_key_value_heads`, `intermediate_size`, `vocab_size`,
/// `tie_word_embeddings`); and of Qwen/Qwen2.5-0.5B, Qwen2.5-7B, Qwen3-0.6B and Qwen3-8B, with `head_dim`.
[[nodiscard]] const std::vector<NamedModel>& published_models();

}  // namespace ultra::nn
