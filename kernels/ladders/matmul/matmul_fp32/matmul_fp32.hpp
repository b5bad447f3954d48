#pragma once
/// @file
/// The ladder of matrix products in fp32 on CUDA cores: c = a b, row-major, from one multiplication per
/// two loads to what cuBLAS reaches without tensor cores.
///
/// One rung, one file, one idea. Legend of all rungs: M x N is the shape of c, K the depth; a block
/// computes BM x BN elements of c in steps of BK along the depth, a thread TM x TN of them.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Matrix products in fp32 on CUDA cores.
namespace ultra::kernels::matmul_fp32 {

/// @brief c = a b; all matrices are row-major and contiguous, begin at a multiple of 16 bytes and have
/// fewer than 2^31 elements: kernels count them in an int.
struct Problem {
  /// @brief M: rows of a and c.
  int rows;
  /// @brief N: columns of b and c.
  int columns;
  /// @brief K: columns of a, rows of b.
  int depth;
  /// @brief [rows, depth].
  const float* a;
  /// @brief [depth, columns].
  const float* b;
  /// @brief [rows, columns], written.
  float* c;
};

/// @brief Rung 1: one thread per element, neighbouring lanes in one column.
template <simt::Executor executor>
void naive(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: neighbouring lanes in one row, so that their loads are neighbours, too. Exercise 09.1.
template <simt::Executor executor>
void coalesced(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: tiles of a and b in shared memory, each element loaded once per block. Exercise 09.2.
template <simt::Executor executor>
void tiled(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: eight rows of c a thread, an element of b in a register. Exercise 09.3.
template <simt::Executor executor>
void coarsened(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: a square of c a thread, both sides in registers.
template <simt::Executor executor>
void register_tile(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 6: four floats per access, the tile of a transposed for it.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 7: a square of c a warp, and 16 x 8 of it a thread.
template <simt::Executor executor>
void warp_tile(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 8: tiles travel by cp.async while earlier ones are multiplied.
template <simt::Executor executor>
void pipelined(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 9: a larger tile, and the next registers loaded while these are multiplied.
template <simt::Executor executor>
void large_tile(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::matmul_fp32
