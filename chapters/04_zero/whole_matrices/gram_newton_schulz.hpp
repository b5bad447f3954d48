#pragma once
/// @file
/// Newton-Schulz steps that touch the large side of a matrix twice only.

#include <cstddef>

#include "common/optim/newton_schulz.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief What optim::newton_schulz() does, in place, with all steps on the Gram matrix of the smaller side.
///
/// With R = X X^T of a wide X, divided by its norm, a step multiplies X by Z = a I + b R + c R^2, and so
/// makes Z R Z of R. All Z are polynomials of one matrix: their order does not matter, and their product Q
/// multiplies X once, at the end. A tall matrix has R = X^T X, and Q on its right.
/// @param matrix  [rows, columns] of f32 or f64, contiguous.
/// Cost: gram_newton_schulz_flops() at most.
/// Memory: a few matrices of the smaller side squared, and one like `matrix`.
/// Rounding: errors of R count for more than those of X: a singular value s of the divided matrix
/// becomes s^2 in R. In two bytes it needs a restart between the steps, which this one does not have.
/// Source: Zhang, Amsel, Chen, Dao 2026, "Gram Newton-Schulz", github.com/Dao-AILab/gram-newton-schulz.
void gram_newton_schulz(const Tensor& matrix, const optim::NewtonSchulz& constants = {});

/// @brief Operations of its products: with m the smaller side and n the larger, 4 n m^2 in all, and four
/// products of m x m for each step, but two for the last.
[[nodiscard]] constexpr std::size_t gram_newton_schulz_flops(std::size_t smaller,
                                                             std::size_t larger,
                                                             std::size_t steps = 5) {
  return 4 * larger * smaller * smaller + (4 * steps - 2) * 2 * smaller * smaller * smaller;
}

}  // namespace ultra::zero
