#pragma once
/// @file
/// The ladder of transpositions: out = in^T in fp32. Nothing is computed, so a rung is as good as
/// its accesses are: the least is one read and one write of every element.
///
/// Legend of all rungs: `row` and `column` count elements of in.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Transpositions of matrices.
namespace ultra::kernels::transpose {

/// @brief out[column][row] = in[row][column]; both matrices are row-major and contiguous.
struct Problem {
  /// @brief Rows of in, columns of out.
  int rows;
  /// @brief Columns of in, rows of out.
  int columns;
  /// @brief [rows, columns].
  const float* in;
  /// @brief [columns, rows], written.
  float* out;
};

/// @brief Rung 1: one thread per element; loads are neighbours, stores are not.
template <simt::Executor executor>
void naive(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: tiles turn in shared memory, whose columns lie in one bank.
template <simt::Executor executor>
void tiled(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: a tile laid out so that columns cross all banks, too. Exercise 09.4.
template <simt::Executor executor>
void padded(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: 16 bytes per lane and access, in a tile whose chunks are permuted instead of
/// padded.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::transpose
