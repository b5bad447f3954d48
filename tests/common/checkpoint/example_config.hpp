#pragma once
/// @file
/// A model whose config.json the tests write and read.

#include "common/nn/model_config.hpp"

namespace ultra::checkpoint {

inline constexpr const char* kPath = "some/config.json";  ///< of its file, for messages

/// @brief A small Llama whose sizes are all different.
[[nodiscard]] inline nn::ModelConfig a_model() {
  return {.vocab_size = 300,
          .hidden_size = 48,
          .num_layers = 3,
          .num_heads = 6,
          .num_kv_heads = 2,
          .ffn_hidden_size = 100,
          .max_seq_len = 77,
          .rope_theta = 5000.0,
          .norm_epsilon = 1e-6};
}

}  // namespace ultra::checkpoint
