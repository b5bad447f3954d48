// Exercise 04.11: who owns which matrix.
//
// Goal:        deal matrices out to ranks so that each has about as much to compute.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 04.11
// Hints:       ./workbook hint 04.11
// Targets:     the rank with most has at most 4/3 of the least that is possible;
//              equal blocks, as many as there are ranks, give every rank the same;
//              the same costs give the same owners, whoever asks
//
// chapters/04_zero/whole_matrices/matrix_owners.hpp declares the function.
#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: the order in which the matrices are dealt out. Equal ones keep theirs.
// TODO 2: each to the rank that has least so far.
std::vector<int> matrix_owners([[maybe_unused]] std::span<const std::size_t> costs,
                               [[maybe_unused]] int ranks) {
  throw NotWritten("04.11 matrix_owners");
}

}  // namespace ultra::zero
