#pragma once
/// @file
/// What stmatrix does between the lanes of a warp.

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/vector_types.hpp"

namespace ultra::simt::emulator {

/// @brief Hands the elements of four 8 x 8 matrices of 16-bit elements to the lanes that store their
/// rows: register i of lane l has elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix i, and
/// lane l gets row l % 8 of matrix l / 8. All lanes of the warp call it.
[[nodiscard]] uint4 exchange_matrices(const unsigned (&registers)[4], Place place);

}  // namespace ultra::simt::emulator
