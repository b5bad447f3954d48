#pragma once
/// @file
/// The dimensions of the model.

#include <cstddef>

namespace ultra::nn {

/// @brief Dimensions of the Llama-style model: RMSNorm, rotary positions, grouped-query attention,
/// SwiGLU, no biases.
struct ModelConfig {
  std::size_t vocab_size = 256;       ///< token ids are in [0, vocab_size)
  std::size_t hidden_size = 128;      ///< width of the residual stream
  std::size_t num_layers = 4;         ///< transformer blocks
  std::size_t num_heads = 4;          ///< query heads; divides hidden_size
  std::size_t num_kv_heads = 2;       ///< key/value heads; divides num_heads
  std::size_t ffn_hidden_size = 384;  ///< width inside the feed-forward part
  std::size_t max_seq_len = 128;      ///< longest sequence; positions are below it
  double rope_theta = 10000.0;        ///< base of the rotary frequencies
  double norm_epsilon = 1e-5;         ///< added to the mean square in RMSNorm
  bool tied_embeddings = false;       ///< the token table is the output projection too

  /// @brief Elements per head.
  [[nodiscard]] std::size_t head_dim() const { return hidden_size / num_heads; }
  /// @brief Width of the key (and of the value) projection.
  [[nodiscard]] std::size_t kv_hidden_size() const { return num_kv_heads * head_dim(); }

  /// @brief Checks that the dimensions make a model.
  /// @throws ConfigError with the equation that does not hold, its values and the flag to change.
  void validate() const;

  /// @brief Equal when all dimensions are equal.
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace ultra::nn
