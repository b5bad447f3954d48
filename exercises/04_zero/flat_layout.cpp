// Exercise 04.1: shards of a flat array.
//
// Goal:        cut any tensors into one equal shard per rank.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 04.1
// Hints:       ./workbook hint 04.1
// Targets:     tensors one after the other, padded by less than one element per rank;
//              shards of equal size that cover the array, whatever the counts and the ranks;
//              pieces that are nowhere empty, never padding, and together every element once
//
// chapters/04_zero/flat_layout.hpp declares the functions.
#include "chapters/04_zero/flat_layout.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: the places of the tensors, one after the other; then the shard's size, rounded up, and
// the padded size of the array.
FlatLayout flat_layout([[maybe_unused]] std::span<const std::size_t> counts,
                       [[maybe_unused]] int ranks) {
  throw NotWritten("04.1 flat_layout: flat_layout");
}

// TODO 2: the part of the padded array that a rank owns.
Range shard_range([[maybe_unused]] const FlatLayout& layout, [[maybe_unused]] int rank) {
  throw NotWritten("04.1 flat_layout: shard_range");
}

// TODO 3: for each tensor, what it has in common with the shard: where that is in the tensor, and
// where it is in the shard.
std::vector<Piece> pieces_of([[maybe_unused]] const FlatLayout& layout, [[maybe_unused]] int rank) {
  throw NotWritten("04.1 flat_layout: pieces_of");
}

}  // namespace ultra::zero
