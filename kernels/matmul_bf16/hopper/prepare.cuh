#pragma once
/// @file
/// What the launchers of Hopper's rungs do on the host: refuse what they cannot do, describe matrices to
/// TMA, count multiprocessors.

#include <cuda.h>

#include "kernels/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16 {

/// @brief Refuses a GPU that is not of compute capability 9.0, and rows that TMA cannot describe.
/// @throws simt::SimtError
void expect_hopper(const Problem& problem);

/// @brief Describes a matrix [rows, columns] of bf16 to TMA: boxes of [box_rows, 64], 128-byte rows,
/// swizzled; zeros outside. columns is a multiple of 8, box_rows at most 256.
/// @throws simt::SimtError when the driver has no TMA, or refuses the matrix.
[[nodiscard]] CUtensorMap describe_matrix(const simt::bf16* matrix, int rows, int columns,
                                          int box_rows);

/// @brief Multiprocessors of the current GPU.
/// @throws simt::SimtError
[[nodiscard]] unsigned count_multiprocessors();

}  // namespace ultra::kernels::matmul_bf16
