#pragma once
/// @file
/// Attention by plain loops in f64, with the whole matrix of probabilities: the independent witness
/// of the blocked one, and how far rounding may take the two apart.

#include <cstdint>
#include <vector>

#include "common/ops/attention.hpp"

namespace ultra::ops {

/// @brief One attention call: shapes, inputs and what each query sees.
struct AttentionCase {
  Tensor query;                               ///< [batch, query_seq, heads, head_dim]
  Tensor key;                                 ///< [batch, key_seq, kv_heads, head_dim]
  Tensor value;                               ///< [batch, key_seq, kv_heads, head_dim]
  Mask mask = Mask::kCausal;                  ///< what each query sees
  double scale = 1.0;                         ///< factor on the scores
  std::vector<std::int32_t> query_positions;  ///< as AttentionOptions has them
  std::vector<std::int32_t> key_positions;    ///< as AttentionOptions has them
  std::vector<std::int32_t> first_seen;       ///< as AttentionOptions has them
  std::size_t window = 0;                     ///< as AttentionOptions has it

  /// @brief The options of the call; they refer to this case.
  [[nodiscard]] AttentionOptions options() const {
    return {.mask = mask,
            .scale = scale,
            .query_positions = query_positions,
            .key_positions = key_positions,
            .first_seen = first_seen,
            .window = window};
  }

  /// @brief Whether query i of sequence b sees key j.
  [[nodiscard]] bool sees(std::size_t b, std::size_t i, std::size_t j) const;
};

/// @brief What attention should return, row-major, and the largest errors.
struct NaiveForward {
  std::vector<double> output;       ///< [batch, query_seq, heads, head_dim]
  std::vector<double> log_sum_exp;  ///< [batch, heads, query_seq]
  double output_tolerance = 0.0;    ///< of one element
  double log_tolerance = 0.0;       ///< of one element
};

/// @brief Softmax attention by plain loops.
[[nodiscard]] NaiveForward naive_attention(const AttentionCase& in);

/// @brief What attention_backward should return, row-major, and the largest errors.
struct NaiveBackward {
  std::vector<double> d_query;   ///< of the query's shape
  std::vector<double> d_key;     ///< of the key's shape
  std::vector<double> d_value;   ///< of the key's shape
  double query_tolerance = 0.0;  ///< of one element of d_query
  double key_tolerance = 0.0;    ///< of one element of d_key
  double value_tolerance = 0.0;  ///< of one element of d_value
};

/// @brief Gradients of softmax attention by plain loops.
[[nodiscard]] NaiveBackward naive_attention_backward(const AttentionCase& in,
                                                     const Tensor& d_output);

}  // namespace ultra::ops
