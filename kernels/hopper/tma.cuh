#pragma once
/// @file
/// TMA, the copy engine of Hopper: one thread moves a box of a matrix between global and shared memory.
/// Source: PTX ISA, "cp.async.bulk.tensor".
///
/// All boxes are 64 bf16 wide: rows of 128 bytes, swizzled by the engine: unit u (16 bytes) of row r lies
/// in place u xor (r % 8). Boxes begin at multiples of 1024 bytes of shared memory, where r is 0
/// modulo 8. What lies outside the matrix arrives as zeros, counts as bytes all the same, and is not
/// written back.

#include "kernels/hopper/barrier.cuh"

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/tma.cuh"
#else
#include "kernels/hopper/emulator/tma.hpp"
#endif

namespace ultra::kernels::hopper {
namespace {

/// @brief Units of 16 bytes in a row of a box.
constexpr int kRowUnits = 8;

/// @brief What boxes are aligned to in shared memory.
constexpr unsigned kBoxAlignment = 1024;

/// @brief Dynamic shared memory as a T at the next multiple of kBoxAlignment: ask for bytes_of<T>().
template <typename T>
__device__ __forceinline__ T& aligned_shared() {
  auto* const storage = simt::dynamic_shared<unsigned char>();
  const unsigned past = shared_address(storage) % kBoxAlignment;
  return *reinterpret_cast<T*>(storage + (past == 0 ? 0 : kBoxAlignment - past));
}

/// @brief What to ask for, so that a T fits behind its alignment.
template <typename T>
constexpr std::size_t bytes_of() {
  return sizeof(T) + kBoxAlignment;
}

}  // namespace
}  // namespace ultra::kernels::hopper
