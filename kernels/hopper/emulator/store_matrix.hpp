#pragma once
/// @file
/// stmatrix for the emulator. kernels/hopper/gpu/store_matrix.cuh has the same for a GPU.

#include "kernels/simt/emulator/async/matrix_store.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Stores four 8 x 8 matrices of 16-bit elements to shared memory: lane l brings the address of
/// row l % 8 of matrix l / 8.
inline void store_matrices(uint4* row, const unsigned (&registers)[4],
                           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const uint4 own = simt::emulator::exchange_matrices(registers, {.file = file, .line = line});
  simt::sts(row, own, file, line);
}

}  // namespace
}  // namespace ultra::kernels::hopper
