#pragma once
/// @file
/// Newton-Schulz steps: a matrix whose singular values are all about 1, by matrix products alone.

#include <cstddef>

#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief A step's polynomial, which changes each singular value alone: s becomes a s + b s^3 + c s^5.
struct NewtonSchulz {
  double a = 3.4445;      ///< the slope at zero: what small values grow by
  double b = -4.7750;     ///< of the cube
  double c = 2.0315;      ///< of the fifth power
  std::size_t steps = 5;  ///< one after the other
  double epsilon = 1e-7;  ///< added to the norm that the matrix is divided by at first
};

/// @brief Moves the singular values of a matrix near 1, in place; its singular vectors stay.
///
/// After the division by the Frobenius norm they lie between 0 and 1. They do not become 1 with these
/// coefficients: those of at least 0.002 end between 0.68 and 1.21. Five steps reach so far down because
/// the slope is so steep.
/// @param matrix  [rows, columns] of f32 or f64, contiguous.
/// Cost: newton_schulz_flops() operations; on a device with streams the host waits for the norm.
/// Memory: two matrices of the smaller side squared, and one like `matrix`.
/// Source: coefficients and order of products: K. Jordan, github.com/KellerJordan/Muon, muon.py.
/// Deviation: there it computes in bf16.
void newton_schulz(const Tensor& matrix, const NewtonSchulz& constants = {});

/// @brief Operations of the products of newton_schulz(): with m the smaller side and n the larger,
/// 4 n m^2 + 2 m^3 for each step.
[[nodiscard]] std::size_t newton_schulz_flops(std::size_t rows, std::size_t columns,
                                              std::size_t steps = NewtonSchulz{}.steps);

}  // namespace ultra::optim
