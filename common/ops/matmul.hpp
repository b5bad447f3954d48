#pragma once
/// @file
/// Matrix products.

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Whether a factor of a product is used as it is or transposed.
enum class Transpose { kNo, kYes };

/// @brief Whether a result replaces what the output held or is added to it.
enum class Write { kOverwrite, kAccumulate };

/// @brief out = op(a) op(b), or out += op(a) op(b).
///
/// The factors have one type. Products of bf16 and f16 are summed in f32 and rounded once, when the
/// result is stored.
/// @param out  [M, N], contiguous rows; of the factors' type, or f32 where that is bf16 or f16.
/// @param a    [M, K], or [K, M] when transposed, contiguous rows.
/// @param b    [K, N], or [N, K] when transposed, contiguous rows.
/// @throws ShapeError when shapes or dtypes do not fit, with all three shapes; Interrupted when the
/// program was told to stop.
void matmul_into(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                 Transpose transpose_b, Write write = Write::kOverwrite);

/// @brief A new tensor op(a) op(b) of shape [M, N].
/// @throws ShapeError when shapes or dtypes do not fit.
[[nodiscard]] Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b,
                            Transpose transpose_b);

/// @brief The same in the type of the factors, or in f32 where that is bf16 or f16.
/// @throws ShapeError when shapes or dtypes do not fit.
[[nodiscard]] Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b,
                            Transpose transpose_b, DType dtype);

/// @brief All leading dimensions folded into one: [batch, seq, hidden] -> [batch * seq, hidden].
[[nodiscard]] Tensor as_matrix(const Tensor& x);

/// @brief Adds a bias to every row, in place.
/// @param y     [.., features].
/// @param bias  [features].
void add_bias(const Tensor& y, const Tensor& bias);

/// @brief Writes the sum of all rows, or adds it: the gradient of a bias.
/// @param sum  [features].
/// @param d_y  [.., features].
void sum_rows_into(const Tensor& sum, const Tensor& d_y, Write write);

}  // namespace ultra::ops
