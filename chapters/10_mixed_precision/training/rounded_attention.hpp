#pragma once
/// @file
/// Causal attention whose softmax is rounded to two bytes after every operation: to see why it is not.
///
/// | of one query          | in a training | here                                                |
/// |-----------------------|---------------|-----------------------------------------------------|
/// | scores                | f32           | rounded, before the scale and after it              |
/// | exponentials          | f32           | rounded, and so are their distances from the highest score |
/// | their sum             | f32           | rounded after each addition                         |
/// | weights               | f32           | rounded                                             |
/// | sum of weight times d_weight | f32    | each product and each partial sum rounded           |
///
/// Sums inside products, over the head's features or the tokens, stay f32.

#include <cstdint>
#include <memory>
#include <span>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/ops/rope.hpp"

namespace ultra::mixed_precision {

/// @brief Replaces the scores of one query by their softmax, each operation rounded.
/// @param scores  numbers of `dtype`.
/// @param dtype   bf16 or f16.
void rounded_softmax(std::span<float> scores, DType dtype);

/// @brief Replaces the gradients of weights by those of the scores, each operation rounded.
/// @param weights    what rounded_softmax has returned.
/// @param d_weights  of as many numbers.
void rounded_softmax_backward(std::span<const float> weights, std::span<float> d_weights,
                              DType dtype);

/// @brief What attends to what.
struct AttentionOperands {
  Tensor query;  ///< [batch, seq, heads, head_dim] of bf16 or f16, rotated
  Tensor key;    ///< [batch, seq, kv_heads, head_dim], rotated
  Tensor value;  ///< [batch, seq, kv_heads, head_dim]
  /// [batch, seq] the first key that each query sees; empty means 0
  std::span<const std::int32_t> first_seen = {};
};

/// @brief Causal attention with scale 1 / sqrt(head_dim) by rounded_softmax.
/// @param output  [batch, seq, heads, head_dim] of the query's type, overwritten.
/// Memory: f32 copies of the inputs and of the output for the time of the call.
void rounded_attention_into(const Tensor& output, const AttentionOperands& inputs);

/// @brief Its gradients, by the weights that the forward pass had: they are computed again.
/// @param d_output  [batch, seq, heads, head_dim].
[[nodiscard]] nn::QkvGradients rounded_attention_backward(const Tensor& d_output,
                                                          const AttentionOperands& inputs);

/// @brief A core that rotates and saves as another does, and attends by rounded_softmax.
/// @param core     attention of whole sequences on the CPU.
/// @param context  what it was made in: its rotations and its window.
[[nodiscard]] std::unique_ptr<nn::AttentionCore> rounded_attention(
    std::unique_ptr<nn::AttentionCore> core, const nn::BuildContext& context);

}  // namespace ultra::mixed_precision
