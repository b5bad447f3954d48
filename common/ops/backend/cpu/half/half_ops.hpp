#pragma once
/// @file
/// The operations on tensors of bf16 and f16: read as f32, computed with the f32 loops, rounded once.
///
/// Each operand may be f32 where the public header allows it; see the headers of common/ops.

#include <cstdint>
#include <span>

#include "common/ops/adamw.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/backend/cpu/kernels.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/rope.hpp"
#include "common/tensor/tensor.hpp"

/// @brief Operations on numbers of two bytes.
namespace ultra::ops::cpu::half {

/// @brief out = op(a) op(b) or out += op(a) op(b), summed in f32; out is a's type or f32.
void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, Write write);

/// @brief The same by the f32 product of converted blocks: the way that every processor can go.
void matmul_by_blocks(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                      Transpose transpose_b, Write write);

/// @brief The same by another product.
/// @param product  of a block of rows and one of columns, over the whole inner axis.
void matmul_by_blocks(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                      Transpose transpose_b, Write write, BlockProduct<float> product);

/// @brief out = a + b; out may be a.
void add(const Tensor& out, const Tensor& a, const Tensor& b);

/// @brief a *= factor.
void scale(const Tensor& a, float factor);

/// @brief Sum of squares in f64.
[[nodiscard]] double sum_of_squares(const Tensor& x);

/// @brief product = silu(gate) up.
void swiglu(const Tensor& product, const Tensor& gate, const Tensor& up);

/// @brief Both gradients of swiglu in one pass.
void swiglu_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                     const Tensor& gate, const Tensor& up);

/// @brief See ops::adamw_into.
void adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
           const Tensor& second_moment, const AdamWStep& constants);

/// @brief See ops::rms_norm; reciprocal_rms is f32.
void rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x, const Tensor& weight,
              double epsilon);

/// @brief See ops::rms_norm_backward; d_weight is added to, and summed in f32.
void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y,
                       const Tensor& x, const Tensor& weight, const Tensor& reciprocal_rms);

/// @brief See ops::rope_into; the table is f32.
void rope(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
          Rotation rotation);

/// @brief See ops::cross_entropy_into_gradient.
[[nodiscard]] double cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                                   double z_loss);

/// @brief Adds a row of `from` to a row of `to`.
void add_row(const Tensor& to, std::size_t to_row, const Tensor& from, std::size_t from_row);

/// @brief See ops::attention; the log-sum-exp is f32.
/// @param attend  of f32 numbers: cpu::attention, or another with its parameters.
void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
               const Tensor& value, const AttentionOptions& options,
               decltype(&cpu::attention<float>) attend = cpu::attention<float>);

/// @brief See ops::attention_backward; the log-sum-exp is f32.
/// @param differentiate  of f32 numbers: cpu::attention_backward, or another with its parameters.
void attention_backward(
    const AttentionGradients& gradients, const Tensor& d_output, const Tensor& query,
    const Tensor& key, const Tensor& value, const Tensor& output, const Tensor& log_sum_exp,
    const AttentionOptions& options,
    decltype(&cpu::attention_backward<float>) differentiate = cpu::attention_backward<float>);

}  // namespace ultra::ops::cpu::half
