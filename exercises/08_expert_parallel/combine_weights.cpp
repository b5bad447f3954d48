// Exercise 08.5: gradients of the combine weights.
//
// Goal:        let the loss reach the router.
// Length:      about 35 lines
// Difficulty:  hard
// Check:       ./workbook check 08.5
// Hints:       ./workbook hint 08.5
// Targets:     finite differences of the weighted sums, for weights that were divided by their sum
//              and for a single choice; choices that were dropped; zeros for experts that were not
//              chosen
//
// chapters/08_expert_parallel/combine_weights.hpp declares the functions.
#include "chapters/08_expert_parallel/combine_weights.hpp"

#include "common/base/errors.hpp"

namespace ultra::expert_parallel {

// TODO 1: the gradient of each weight, from its row and the gradient of its token.
// TODO 2: from the weights of a token to its affinities.
Tensor combine_weights_backward([[maybe_unused]] const Tensor& d_y,
                                [[maybe_unused]] const Tensor& rows,
                                [[maybe_unused]] const ExpertOrder& order,
                                [[maybe_unused]] const Routing& routing,
                                [[maybe_unused]] const Tensor& affinities) {
  throw NotWritten("08.5 combine_weights");
}

}  // namespace ultra::expert_parallel
