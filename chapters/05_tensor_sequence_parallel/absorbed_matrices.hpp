#pragma once
/// @file
/// The matrices of latent attention, multiplied into each other ahead of time.
///
/// A head compares the latent a of a query with that of a token, c, by (W_Q a) . (W_K c), and a token adds
/// W_O W_V c to the output of a query that sees it alone. So two matrices hold all that a head does
/// with latents, except for what is rotated: c . (W_K^T W_Q) a, and (W_O W_V) c.
///
/// Exercise 05.7 (`./workbook check 05.7`).
/// Body: solutions/05_tensor_sequence_parallel/absorbed_matrices.cpp.
/// Source: arXiv 2405.04434, section 2.1.

#include "common/nn/model_config.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::tensor_parallel {

/// @brief Two matrices of each head.
struct AbsorbedMatrices {
  Tensor score;   ///< [heads, kv_lora_rank, q_lora_rank]: W_K^T W_Q
  Tensor output;  ///< [heads, hidden_size, kv_lora_rank]: W_O W_V
};

/// @brief Multiplies the matrices of each head.
/// @param query      [heads (qk_nope_head_dim + qk_rope_head_dim), q_lora_rank], q_b_proj: of each head the
///                   rows that are not rotated, W_Q, and after them those that are.
/// @param key_value  [heads (qk_nope_head_dim + v_head_dim), kv_lora_rank], kv_b_proj: of each head W_K,
///                   and after it W_V.
/// @param output     [hidden_size, heads v_head_dim], o_proj: W_O of the first head, then that of the next.
[[nodiscard]] AbsorbedMatrices absorb_matrices(const Tensor& query, const Tensor& key_value,
                                               const Tensor& output,
                                               const nn::LatentAttention& sizes);

}  // namespace ultra::tensor_parallel
