// Exercise 04.8: reading on M ranks what N ranks wrote.
//
// Goal:        find the stored pieces that hold the elements a rank needs, whatever the layouts.
// Length:      about 30 lines
// Difficulty:  medium
// Check:       ./workbook check 04.8
// Hints:       ./workbook hint 04.8
// Targets:     every element that is wanted comes from the piece that holds it, once;
//              copies in the order of what is wanted, none of them empty;
//              pieces in any order and of any size, with gaps between them;
//              pieces that hold some columns of a matrix, of which every row counts alone
//
// chapters/04_zero/checkpoints/reshard.hpp declares the functions.
#include "chapters/04_zero/checkpoints/reshard.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: for each stored piece, what it has in common with what is wanted: where that is in the
// piece, and where it belongs. Then the order.
std::vector<PieceCopy> copies_for([[maybe_unused]] std::span<const Range> stored,
                                  [[maybe_unused]] Range wanted) {
  throw NotWritten("04.8 reshard: copies_for");
}

// TODO 2: the same where a piece holds rows with gaps between them in the tensor, and none in the
// piece. Copies of several pieces take turns now: who brings them into order? Begin at the first row
// that may be wanted, for a matrix may have many.
std::vector<PieceCopy> copies_from_rows([[maybe_unused]] std::span<const PieceRows> stored,
                                        [[maybe_unused]] Range wanted) {
  throw NotWritten("04.8 reshard: copies_from_rows");
}

}  // namespace ultra::zero
