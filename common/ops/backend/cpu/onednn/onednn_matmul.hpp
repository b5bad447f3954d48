#pragma once
/// @file
/// Products of bf16 matrices by oneDNN, where the processor multiplies bf16 itself.

#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

/// @brief Products of bf16 matrices by oneDNN.
namespace ultra::ops::cpu::onednn {

/// @brief Whether this build has oneDNN and this processor has instructions for products of bf16
/// (AVX512-BF16 or AMX).
[[nodiscard]] bool is_available();

/// @brief Whether matmul() takes this product: bf16 factors, and large enough to be worth its call.
///
/// Extents alone decide, so that equal products are computed in one way in every run.
[[nodiscard]] bool multiplies(const Tensor& out, const Tensor& a, Transpose transpose_a);

/// @brief out = op(a) op(b) or out += op(a) op(b) of bf16 factors, summed in f32 and rounded once.
///
/// A product of new extents makes a kernel for them (about 0.2 ms), which this thread keeps.
/// @param out  [M, N] of bf16 or f32.
/// @pre is_available().
void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, Write write);

}  // namespace ultra::ops::cpu::onednn
