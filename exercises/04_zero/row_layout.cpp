// Exercise 04.13: rows against flat.
//
// Goal:        cut each tensor by whole rows, so that equal shards of all of them travel in one message.
// Length:      about 25 lines
// Difficulty:  easy
// Check:       ./workbook check 04.13
// Hints:       ./workbook hint 04.13
// Targets:     as many padding rows for each tensor as make the ranks divide it, and no more;
//              rows fall to ranks as torch.chunk() deals them out: the first ranks have equally many;
//              pieces that are whole rows, nowhere empty, never padding, and together every row once
//
// chapters/04_zero/rows/row_layout.hpp declares the functions, and says what each returns.
#include "chapters/04_zero/rows/row_layout.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: where each tensor stands, behind the padding of those before it.
// TODO 2: elements without and with padding, and those of a shard.
FlatLayout row_layout([[maybe_unused]] std::span<const TensorRows> tensors,
                      [[maybe_unused]] int ranks) {
  throw NotWritten("04.13 row_layout");
}

// TODO 3: the rows of each tensor that fall to the rank, and where they stand in its shard.
std::vector<Piece> row_pieces([[maybe_unused]] std::span<const TensorRows> tensors,
                              [[maybe_unused]] int ranks, [[maybe_unused]] int rank) {
  throw NotWritten("04.13 row_layout");
}

}  // namespace ultra::zero
