#pragma once
/// @file
/// Matrix products of any shape, transposed or not.

#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief A matrix in memory: element (i, j) is at i row_stride + j column_stride.
struct Steps {
  /// @brief Elements between neighbours in a column.
  std::size_t row;
  /// @brief Elements between neighbours in a row.
  std::size_t column;
};

/// @brief out [rows, columns] = or += a [rows, depth] b [depth, columns].
struct Matmul {
  /// @brief Rows of the result.
  std::size_t rows;
  /// @brief Columns of the result.
  std::size_t columns;
  /// @brief Terms of each sum.
  std::size_t depth;
  /// @brief The left factor.
  Source a;
  /// @brief Where its elements are; a transposed matrix has them the other way round.
  Steps a_steps;
  /// @brief The right factor, of a's type.
  Source b;
  /// @brief Where its elements are.
  Steps b_steps;
  /// @brief The result: of a's type, or of the type in which sums are kept.
  Target out;
  /// @brief Elements between the starts of neighbouring rows of the result.
  std::size_t out_stride;
  /// @brief Whether it is added to.
  Write write;
  /// @brief Terms of a leaf of each sum's tree.
  std::size_t leaf = kOneLeaf;
};

/// @brief The product; sums are rounded once.
template <simt::Executor executor>
void matmul(const Matmul& operands, const simt::Queue& queue);

}  // namespace ultra::kernels::generic
