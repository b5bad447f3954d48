#pragma once
/// @file
/// What the launchers of Hopper's rungs do on the host: refuse what they cannot do, describe matrices to
/// TMA, count multiprocessors.

#include <cuda.h>

#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::hopper {

/// @brief Refuses a GPU that is not of compute capability 9.0.
/// @param hint  what runs elsewhere, for the message.
/// @throws simt::SimtError
void expect_hopper(const char* hint);

/// @brief Describes a matrix [rows, columns] of bf16 to TMA: boxes of [box_rows, 64], 128-byte rows,
/// swizzled; zeros outside. columns is a multiple of 8, box_rows at most 256.
/// @throws simt::SimtError when the driver has no TMA, or refuses the matrix.
[[nodiscard]] CUtensorMap describe_matrix(const simt::bf16* matrix, int rows, int columns,
                                          int box_rows);

/// @brief The same of `layers` matrices behind each other: a box lies in one of them, and what is outside
/// of it is zeros, not the next one's rows.
[[nodiscard]] CUtensorMap describe_stack(const simt::bf16* matrices, int layers, int rows,
                                         int columns, int box_rows);

/// @brief Multiprocessors of the current GPU.
/// @throws simt::SimtError
[[nodiscard]] unsigned count_multiprocessors();

}  // namespace ultra::kernels::hopper
