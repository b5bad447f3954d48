#pragma once
/// @file
/// Scaled dot-product attention in blocks, without ever storing the seq x seq matrix.

#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Which keys a query sees.
enum class Mask {
  kNone,   ///< all keys
  kCausal  ///< the keys whose absolute position is at most the query's
};

/// @brief In which type attention returns its output or its gradients.
enum class AttentionSums {
  kRounded,  ///< that of the inputs
  kWide      ///< the one in which they are summed: f32 for bf16 and f16. For who adds further parts
};

/// @brief How to attend.
struct AttentionOptions {
  Mask mask = Mask::kCausal;  ///< which keys a query sees
  double scale = 1.0;         ///< factor on the scores, usually 1 / sqrt(head_dim)
  /// [query_seq] absolute positions, ascending; empty means 0, 1, 2, ...
  std::span<const std::int32_t> query_positions = {};
  /// [key_seq] absolute positions, ascending; empty means 0, 1, 2, ...
  std::span<const std::int32_t> key_positions = {};
  /// [batch, query_seq] the position of the first key that each query sees, ascending in each
  /// sequence; empty means 0. With documents packed in a sequence: where a query's document begins.
  std::span<const std::int32_t> first_seen = {};
  /// Positions that a query sees of those up to its own, its own included; 0 means all. Source: Jiang et
  /// al. 2023, "Mistral 7B", arXiv 2310.06825, section 2.
  std::size_t window = 0;
  AttentionSums sums = AttentionSums::kRounded;  ///< type of the output and of the gradients
};

/// @brief What attention returns.
struct AttentionResult {
  Tensor output;  ///< [batch, query_seq, heads, head_dim]; 0 where a query sees no key
  Tensor
      log_sum_exp;  ///< [batch, heads, query_seq] of the scaled scores; -inf where no key. f32 for bf16
                    ///< and f16
};

/// @brief Gradients of attention.
struct AttentionGradients {
  Tensor d_query;  ///< [batch, query_seq, heads, head_dim]
  Tensor d_key;    ///< [batch, key_seq, kv_heads, head_dim]
  Tensor d_value;  ///< [batch, key_seq, kv_heads, head_dim]
};

/// @brief The first key that each query sees: not before its document, and not before its window.
/// @param first_seen  [batch, query_seq] as AttentionOptions has it, or empty.
/// @param positions   [query_seq] of the queries, ascending.
/// @param window      as AttentionOptions has it.
/// @return [batch, query_seq]; empty where each query sees the first key.
[[nodiscard]] std::vector<std::int32_t> first_in_window(std::span<const std::int32_t> first_seen,
                                                        std::span<const std::int32_t> positions,
                                                        std::size_t window, std::size_t batch);

/// @brief softmax(scale Q K^T + mask) V, head by head, with a running maximum.
///
/// Query head h uses key/value head h / (heads / kv_heads). Results over disjoint key ranges can be
/// merged exactly through their log-sum-exp. With inputs of bf16 and f16, scores, probabilities and
/// all sums are f32.
/// @param query  [batch, query_seq, heads, head_dim], contiguous.
/// @param key    [batch, key_seq, kv_heads, head_dim], contiguous.
/// @param value  [batch, key_seq, kv_heads, head_dim], contiguous.
/// @throws ShapeError when shapes do not fit, heads is not a multiple of kv_heads, or positions descend.
/// Cost: a block of queries looks at the keys from the first that one of them sees to the last.
/// Memory: O(query_seq) per head beside the output: one block of scores, never all of them.
/// Source: Dao et al. 2022, "FlashAttention", arXiv 2205.14135, alg. 1; Ainslie et al. 2023,
/// arXiv 2305.13245 (grouped-query heads).
[[nodiscard]] AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionOptions& options);

/// @brief Gradients of attention; the scores are computed again, block by block.
/// @param d_output     [batch, query_seq, heads, head_dim]; of the query's type, or f32 where that
///                     is bf16 or f16, and so is the output.
/// @param output       the forward pass's output over *all* keys, not only over this key range.
/// @param log_sum_exp  the forward pass's log-sum-exp over all keys.
/// Source: FlashAttention, alg. 4.
[[nodiscard]] AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query,
                                                    const Tensor& key, const Tensor& value,
                                                    const Tensor& output, const Tensor& log_sum_exp,
                                                    const AttentionOptions& options);

}  // namespace ultra::ops
