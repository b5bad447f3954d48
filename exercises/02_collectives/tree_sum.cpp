// Exercise 02.8: one tree for any number of ranks.
//
// Goal:        add in one order, so that one rank and many end with the same bits.
// Length:      about 15 lines
// Difficulty:  medium
// Check:       ./workbook check 02.8
// Hints:       ./workbook hint 02.8
// Targets:     n - 1 joins of neighbours, in ceil(log2 n) rounds;
//              a node without a neighbour goes up as it is;
//              parts of 1, 2, 4, 8, ... blocks, summed by themselves and joined: every bit of the whole sum
//
// chapters/02_collectives/tree_sum.hpp declares the functions. The same joins are made twice: by a rank,
// of its blocks, and by the exchange, of what the ranks have. `pairwise-tree` makes yours.
#include "chapters/02_collectives/tree_sum.hpp"

#include "common/base/errors.hpp"

namespace ultra::collectives {

// TODO 1: neighbours, then neighbouring pairs, and so on. Draw it for 8 nodes first, and then for 5: which
//         node waits, and for whom?
std::vector<Join> tree_joins([[maybe_unused]] std::size_t nodes) {
  throw NotWritten("02.8 tree_sum");
}

// TODO 2: the sum of each block, from its first term to its last; then the joins.
float tree_sum([[maybe_unused]] std::span<const float> terms, [[maybe_unused]] std::size_t block) {
  throw NotWritten("02.8 tree_sum");
}

}  // namespace ultra::collectives
