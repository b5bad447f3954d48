// Exercise 05.5: gradients of which several ranks have a part.
//
// Goal:        complete a step's gradients, once.
// Length:      about 30 lines
// Difficulty:  medium
// Check:       ./workbook check 05.5
// Hints:       ./workbook hint 05.5
// Targets:     what ranks have in parts is added up over the groups that the parameter names, and
//              over no others;
//              what every copy has whole, and what only one rank holds, stays as it is;
//              two groups of equal size are still two groups; a parameter may be in parts in both;
//              one all-reduce per group that has something to add up
//
// chapters/05_tensor_sequence_parallel/partial_gradients.hpp declares the function;
// nn::Parameter::replications() tells which groups hold a parameter, train::RankGroups has their
// ranks.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {

// TODO: for each group, find the gradients that its ranks have in parts; put them into one array,
// add it up over the group, and put the sums back to where the gradients stand.
void sum_partial_gradients([[maybe_unused]] std::span<const train::GradientPiece> pieces,
                           [[maybe_unused]] const train::RankGroups& groups) {
  throw NotWritten("05.5 partial_gradients");
}

}  // namespace ultra::tensor_parallel
