#pragma once
/// @file
/// Resharding: reading what N ranks wrote, on M ranks.
///
/// Each rank saves the pieces of tensors that it owns. The rank that reads them later may have
/// another layout: its piece begins in the middle of one stored piece and ends in another. A
/// checkpoint that says for each piece which elements of the whole tensor it holds can be read by
/// any layout. Where tensor parallelism cuts a matrix between columns, a piece holds a few elements
/// of every row.
///
/// Exercise 04.8 (`./workbook check 04.8`). Body: solutions/04_zero/reshard.cpp.

#include <cstddef>
#include <span>
#include <vector>

#include "common/tensor/shape.hpp"

namespace ultra::zero {

/// @brief Consecutive elements to copy from one stored piece.
struct PieceCopy {
  std::size_t piece = 0;  ///< number of the stored piece
  std::size_t from = 0;   ///< first element, counted from the beginning of the stored piece
  std::size_t to = 0;     ///< where it belongs, counted from the beginning of what is wanted
  std::size_t count = 0;  ///< elements; at least 1
  bool operator==(const PieceCopy&) const = default;
};

/// @brief The copies that bring together elements of a tensor from the pieces that hold it.
/// @param stored  the elements of the whole tensor that each piece holds: in any order, none twice; may
/// be empty ranges.
/// @param wanted  elements of the whole tensor.
/// @return in the order in which the elements are wanted; what no piece holds is left out.
[[nodiscard]] std::vector<PieceCopy> copies_for(std::span<const Range> stored, Range wanted);

/// @brief The elements of a whole tensor that a stored piece holds: rows of equal size, one after the
/// other in the piece, at equal distances in the tensor.
struct PieceRows {
  Range first_row;         ///< elements of the whole tensor
  std::size_t rows = 1;    ///< how many
  std::size_t stride = 0;  ///< from row to row in the whole tensor, at least a row; 0 for one row
};

/// @brief copies_for(), from pieces of rows: a copy is of one row.
/// Cost: of the rows up to the end of what is wanted; none for rows that end before its begin.
[[nodiscard]] std::vector<PieceCopy> copies_from_rows(std::span<const PieceRows> stored,
                                                      Range wanted);

}  // namespace ultra::zero
