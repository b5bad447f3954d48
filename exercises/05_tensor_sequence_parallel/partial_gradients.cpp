// Exercise 05.5: gradients of which several ranks have a part.
//
// Goal:        complete a step's gradients once, and find a norm that all ranks agree on.
// Length:      about 35 lines
// Difficulty:  medium
// Check:       ./workbook check 05.5
// Hints:       ./workbook hint 05.5
// Targets:     what copies have in parts is added up over the ranks that hold it, and over no others;
//              what every copy has whole, and what only one rank holds, stays as it is;
//              one all-reduce per group that has something to add up;
//              the norm counts every element once, and is the same on all ranks to the last bit
//
// chapters/05_tensor_sequence_parallel/partial_gradients.hpp declares the functions;
// nn::Parameter::copies() tells who else holds a parameter.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {

// TODO 1: for each group, find the gradients that its ranks have in parts; put them into one array,
// add it up over the group, and put the sums back to where the gradients stand.
void sum_partial_gradients([[maybe_unused]] std::span<const train::GradientPiece> pieces,
                           [[maybe_unused]] std::span<const Communicator> groups) {
  throw NotWritten("05.5 partial_gradients: sum_partial_gradients");
}

// TODO 2: add up the squares of this rank's pieces, but for what another rank counts already; add that
// up over the ranks, and take the root.
double norm_over_ranks([[maybe_unused]] std::span<const train::GradientPiece> pieces,
                       [[maybe_unused]] const Communicator& ranks) {
  throw NotWritten("05.5 partial_gradients: norm_over_ranks");
}

}  // namespace ultra::tensor_parallel
