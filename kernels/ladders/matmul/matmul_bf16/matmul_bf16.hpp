#pragma once
/// @file
/// The ladder of matrix products in bf16: c = a transpose(b), products and sums in fp32, from CUDA cores
/// to an H100's tensor cores at the speed of cuBLAS.
///
/// b is stored [N, K], as a linear layer stores its weights: both operands then run along the depth,
/// which is what tensor cores read ("row.col" of mma.sync, "K-major" of wgmma). c is bf16, because that
/// is what a layer hands to the next one, and what benchmarks of cuBLAS time.
///
/// One rung, one file, one idea. Legend of all rungs: M x N is the shape of c, K the depth; a block
/// computes BM x BN elements of c in steps of BK along the depth, a warp WM x WN of them. A *unit* is
/// 16 bytes: 8 bf16 of one row. The rungs from wgmma_tma on are for Hopper alone (hopper/).

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Matrix products in bf16 with sums in fp32.
namespace ultra::kernels::matmul_bf16 {

/// @brief c = a transpose(b); all matrices are row-major and contiguous.
struct Problem {
  /// @brief M: rows of a and c.
  int rows;
  /// @brief N: rows of b, columns of c.
  int columns;
  /// @brief K: columns of a and b.
  int depth;
  /// @brief [rows, depth].
  const simt::bf16* a;
  /// @brief [columns, depth].
  const simt::bf16* b;
  /// @brief [rows, columns], written.
  simt::bf16* c;
};

/// @brief How a factor lies in memory, row-major, where it may lie either way.
enum class Lies {
  /// @brief [rows, depth].
  kAlongDepth,
  /// @brief [depth, rows]: rows must be a multiple of 8.
  kAlongRows,
};

/// @brief Rung 1: CUDA cores, tiles in shared memory, 8 x 8 elements per thread.
template <simt::Executor executor>
void cuda_cores(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: tensor cores through tiles whose layout nobody knows.
template <simt::Executor executor>
void wmma(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: tensor cores through registers, read from padded shared memory.
template <simt::Executor executor>
void mma_padded(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: four matrices per load, from swizzled shared memory.
template <simt::Executor executor>
void ldmatrix_swizzled(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: copies in the background, three stages deep. K is a multiple of 8.
template <simt::Executor executor>
void multistage(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 6: a warp computes 64 x 64, and loads its next registers meanwhile. K as in rung 5.
template <simt::Executor executor>
void wide_warp_tile(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 7: one warpgroup, wgmma on tiles that TMA brings. K and N are multiples of 8.
template <simt::Executor executor>
void wgmma_tma(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 8: a tile of 128 x 128.
template <simt::Executor executor>
void wgmma_128(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 9: one warpgroup fetches, the other multiplies, with a ring of stages between them.
template <simt::Executor executor>
void producer_consumer(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 10: a tile of 128 x 256 on two multiplying warpgroups, which take the fetcher's registers.
template <simt::Executor executor>
void two_consumers(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 11: one block per multiprocessor, tiles in an order that the second-level cache likes.
template <simt::Executor executor>
void persistent(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 12: two blocks share what they fetch of b; c leaves through TMA.
template <simt::Executor executor>
void cluster_multicast(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::matmul_bf16
