#pragma once
/// @file
/// stmatrix, which only Hopper has: store_matrices(), on every executor. Source: PTX ISA, "stmatrix".

#if defined(__CUDACC__)

#include "kernels/hopper/barrier.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Stores four 8 x 8 matrices of 16-bit elements to shared memory, as ldmatrix loads them
/// (kernels/simt/matrix_tiles.cuh): lane l brings the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(uint4* row, const unsigned (&registers)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
      : "memory");
}

}  // namespace
}  // namespace ultra::kernels::hopper

#else

#include "kernels/simt/emulator/async/hooks.hpp"
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

#endif
