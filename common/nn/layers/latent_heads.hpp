#pragma once
/// @file
/// Heads of multi-head latent attention: how their rows stand in an attention core, and products with
/// the matrix of each head.

#include <cstddef>

#include "common/nn/model_config.hpp"
#include "common/nn/parameter.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief A core's rows of `width` elements, of which positions rotate `rotated`: half of those in front
/// of each half of the row, as ops::RopeTable has it.
struct CoreRows {
  std::size_t rotated;  ///< even
  std::size_t width;    ///< even

  /// @brief Writes rows.
  /// @param rows       [batch, seq, heads, width].
  /// @param unrotated  [batch, seq, heads, width - rotated]; one head: the same for all.
  /// @param turned     [batch, seq, heads, rotated]; one head: the same for all.
  void put(const Tensor& rows, const Tensor& unrotated, const Tensor& turned) const;

  /// @brief Reads rows: the other way around, with as many heads each.
  void take(const Tensor& rows, const Tensor& unrotated, const Tensor& turned) const;
};

/// @brief The sum over heads. @param x  [batch, seq, heads, width]. @return [batch, seq, width]; where sums
/// follow trees, unrounded: other ranks may have other heads.
[[nodiscard]] Tensor sum_of_heads(const Tensor& x);

/// @brief The matrices of this rank's heads, in the weight of kv_b_proj: of head h, the rows of W_K and
/// after them those of W_V.
class HeadMatrices {
 public:
  /// @param weight  [heads (qk_nope_head_dim + v_head_dim), kv_lora_rank]; outlives this.
  HeadMatrices(Parameter& weight, const LatentAttention& sizes) : weight_(weight), sizes_(sizes) {}

  /// @brief W_K^T q of each head: what is compared with latents.
  /// @param query  [batch, seq, heads, qk_head_dim], the elements that are not rotated in front.
  /// @return [batch, seq, heads, kv_lora_rank].
  [[nodiscard]] Tensor absorb(const Tensor& query) const;

  /// @brief W_V c of each head. @param latents  [batch, seq, heads, kv_lora_rank].
  /// @return [batch, seq, heads, v_head_dim].
  [[nodiscard]] Tensor values(const Tensor& latents) const;

  /// @brief The gradient of what absorb() was given, without the rotated elements.
  [[nodiscard]] Tensor absorb_backward(const Tensor& d_absorbed) const;

  /// @brief The gradient of what values() was given.
  [[nodiscard]] Tensor values_backward(const Tensor& d_values) const;

  /// @brief Adds the weight's gradient: once, for both.
  /// @param query, latents  as absorb() and values() were given them.
  void add_gradients(const Tensor& query, const Tensor& d_absorbed, const Tensor& latents,
                     const Tensor& d_values) const;

 private:
  Parameter& weight_;
  LatentAttention sizes_;
};

}  // namespace ultra::nn
