#pragma once
/// @file
/// The dimensions of the model.

#include <cstddef>
#include <optional>

#include "common/ops/rope_scaling.hpp"

namespace ultra::nn {

/// @brief Multi-head latent attention: a token's keys and values are made from one short vector, its
/// latent, and its queries from another. Members have config.json's names.
///
/// A head's query and key are qk_nope_head_dim elements that are not rotated, and qk_rope_head_dim that
/// are; the rotated ones of a key are the same for all heads. In the absorbed form no head has keys or
/// values: queries are compared with latents, and results are averages of latents. The numbers are
/// the same, except for rounding.
/// Source: arXiv 2405.04434, section 2.1.
struct LatentAttention {
  bool on = false;                    ///< whether the model has it
  bool absorbed = false;              ///< how it is computed; not a property of the model
  std::size_t kv_lora_rank = 64;      ///< width of the latent of keys and values
  std::size_t q_lora_rank = 96;       ///< width of that of queries; 0: they have none
  std::size_t qk_nope_head_dim = 32;  ///< elements of a query or key that are not rotated; even
  std::size_t qk_rope_head_dim = 16;  ///< elements that are; even
  std::size_t v_head_dim = 32;        ///< elements of a value

  /// @brief Elements of a head's query, and of its key.
  [[nodiscard]] std::size_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  /// @brief What a token keeps for all heads together: its latent, and the rotated part of its key.
  [[nodiscard]] std::size_t cached() const { return kv_lora_rank + qk_rope_head_dim; }

  /// @brief Equal when all members are.
  bool operator==(const LatentAttention&) const = default;
};

/// @brief Dimensions of the model, a Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU;
/// and what later models have besides.
struct ModelConfig {
  std::size_t vocab_size = 256;   ///< token ids are in [0, vocab_size)
  std::size_t hidden_size = 128;  ///< width of the residual stream
  std::size_t num_layers = 4;     ///< transformer blocks
  std::size_t num_heads = 4;      ///< query heads; divides hidden_size, unless head_size is given
  std::size_t num_kv_heads = 2;   ///< key/value heads; divides num_heads
  std::size_t ffn_hidden_size = 384;  ///< width inside the feed-forward part
  std::size_t max_seq_len = 128;      ///< longest sequence; positions are below it
  double rope_theta = 10000.0;        ///< base of the rotary frequencies
  double norm_epsilon = 1e-5;         ///< added to the mean square in RMSNorm
  bool tied_embeddings = false;       ///< the token table is the output projection too
  std::size_t head_size = 0;          ///< elements per head; 0: hidden_size / num_heads
  bool qkv_bias = false;              ///< queries, keys and values have biases
  bool qk_norm = false;               ///< each head of queries and keys is normalised, then rotated
  std::size_t sliding_window = 0;     ///< tokens that each sees, its own the last; 0: all up to it
  std::optional<ops::RopeScaling> rope_scaling = {};  ///< of the frequencies; absent: none
  LatentAttention latent =
      {};  ///< in place of grouped queries, where it is on; each head is then a
           ///< key/value head of its own
  /// Pieces of a micro-batch's tokens in which head and loss are computed; not a property of the model.
  std::size_t head_chunks = 1;
  bool mtp = false;  ///< a further block predicts the token after next: see MultiTokenPrediction

  /// @brief Elements per head, of queries and keys.
  [[nodiscard]] std::size_t head_dim() const {
    if (latent.on) return latent.qk_head_dim();
    return head_size > 0 ? head_size : hidden_size / num_heads;
  }
  /// @brief Width of the query projection.
  [[nodiscard]] std::size_t q_hidden_size() const { return num_heads * head_dim(); }
  /// @brief Width of the key (and of the value) projection.
  [[nodiscard]] std::size_t kv_hidden_size() const { return num_kv_heads * head_dim(); }

  /// @brief Transformer blocks, with the one that predicts the token after next.
  [[nodiscard]] std::size_t num_blocks() const { return num_layers + (mtp ? 1 : 0); }
  /// @brief Whether the end of the model reads the token table, too.
  [[nodiscard]] bool reads_table_twice() const { return tied_embeddings || mtp; }

  /// @brief Elements per head of what an attention core compares.
  [[nodiscard]] std::size_t core_head_dim() const {
    return latent.on && latent.absorbed ? latent.cached() : head_dim();
  }
  /// @brief Those of them that positions rotate.
  [[nodiscard]] std::size_t rotated_dim() const {
    return latent.on ? latent.qk_rope_head_dim : head_dim();
  }

  /// @brief Whether its layers are those that the closed forms of the chapters count: no biases, no
  /// norms of heads, no latents, no further block, heads as wide together as the model.
  [[nodiscard]] bool has_closed_forms() const {
    return !latent.on && !qkv_bias && !qk_norm && !mtp && q_hidden_size() == hidden_size;
  }

  /// @brief Checks that the dimensions make a model.
  /// @throws ConfigError with the equation that does not hold, its values and the flag to change.
  void validate() const;

  /// @brief Equal when all dimensions are equal.
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace ultra::nn
