#pragma once
/// @file
/// wgmma, the tensor cores of Hopper: 128 threads, a *warpgroup*, multiply tiles that lie in shared
/// memory, while they may do something else. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix
/// Instructions".
///
/// Tiles are boxes of tma.cuh: rows of 64 bf16, swizzled; a's has 64 rows, b's as many as c has
/// columns. The sums [64, N] lie so: with g = lane / 4 and t = lane % 4, thread `lane` of warp w of
/// the warpgroup has in sums[4 i] and [4 i + 1] the row 16 w + g, columns 8 i + 2 t and 8 i + 2 t +
/// 1, and in [4 i + 2] and [4 i + 3] the same columns of row 16 w + g + 8.

#include "kernels/hopper/named_barrier.cuh"
#include "kernels/hopper/tma.cuh"
#include "kernels/simt/matrix_tiles.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/wgmma.cuh"
#else
#include "kernels/hopper/emulator/wgmma.hpp"
#endif

namespace ultra::kernels::hopper {
namespace {

/// @brief Threads of a warpgroup.
constexpr int kWarpgroup = 128;

/// @brief This thread's warpgroup in its block. It comes from one lane of the warp, so that the
/// compiler knows that a warp does not part where warpgroups do.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(simt::kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
}

/// @brief Waits for the 128 threads of a warpgroup; `name` is 1 to 15, another one for each
/// warpgroup.
__device__ __forceinline__ void synchronise_warpgroup(int name) { wait_at_named<kWarpgroup>(name); }

/// @brief Rows of a that one instruction multiplies.
constexpr int kRows = 64;

/// @brief Instructions along a row of a box: each multiplies 16 elements of the depth.
constexpr int kSteps = 4;

/// @brief A tile as wgmma wants to hear of it: its address, the distance of groups of eight rows
/// (1024 bytes), and the swizzle of 128 bytes. The fields are in units of 16 bytes; the distance
/// along the row (bits 16 to 29) has no meaning with this swizzle. Source: PTX ISA, "Matrix
/// Descriptor Format".
__device__ __forceinline__ unsigned long long describe(const uint4* tile) {
  constexpr unsigned long long kRowGroups = 1024 / 16;
  constexpr unsigned long long kSwizzle128 = 1;
  return (shared_address(tile) & 0x3ffffU) >> 4 | 1ULL << 16 | kRowGroups << 32 | kSwizzle128 << 62;
}

/// @brief Must stand before products whose registers other instructions have written or read.
__device__ __forceinline__ void begin_products() {
  __syncwarp();  // lanes may have left a wait one by one; wgmma is undefined for a part of a warp
  fence_registers();
}

/// @brief Begins sums += a transpose(b) over 64 elements of the depth, as one group: a has `parts`
/// x 64 rows, each 64 of them with their own sums. All threads of the warpgroup call it. Each
/// instruction reads 16 elements, 32 bytes, further along the rows; the hardware swizzles the
/// addresses, so that the start moves by those 32 bytes.
template <int parts, int count>
__device__ __forceinline__ void multiply_tiles_async(float (&sums)[parts][count], const uint4* a,
                                                     const uint4* b) {
  const unsigned long long b_tile = describe(b);
  begin_products();
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    const unsigned long long a_tile = describe(a + part * kRows * kRowUnits);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_async(sums[part], a_tile + 2 * step, b_tile + 2 * step);
    }
  }
  commit_products();
}

/// @brief Does what computes `impossible` before what follows, which must be a wait for products:
/// work that shall run beside them. `impossible` must be false whatever the inputs are, and the
/// compiler must not be able to know it. A wait moves up past instructions that have nothing to do
/// with its products; past a branch that ends the kernel it does not.
__device__ __forceinline__ void finish_before_wait(bool impossible) {
  if (__any_sync(simt::kAllLanes, impossible)) {
    wait_for_products<0>();
    stop_kernel();
  }
}

/// @brief Stores a warpgroup's sums, `parts` x 64 rows from (row, column) of c on, as far as they
/// exist; columns is even.
template <int parts, int count>
__device__ __forceinline__ void store_warpgroup_sums(simt::bf16* c, int row, int column, int rows,
                                                     int columns,
                                                     const float (&sums)[parts][count]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    const int top = row + part * kRows + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int c_row = top + lower * 8;
      simt::bf16* const first = c + static_cast<std::ptrdiff_t>(c_row) * columns;
#pragma unroll
      for (int i = 0; i < count / 4; ++i) {
        const int c_column = column + i * 8 + lane % 4 * 2;
        if (c_row < rows && c_column < columns) {
          const float* const pair = &sums[part][4 * i + 2 * lower];
          simt::stg(reinterpret_cast<unsigned*>(first + c_column),
                    simt::pack_bf16(pair[0], pair[1]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::hopper
