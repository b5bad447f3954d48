// Exercise 10.4: the update of master weights.
//
// Goal:        let updates add up that are smaller than the last bit of the weights.
// Length:      about 8 lines
// Difficulty:  easy
// Check:       ./workbook check 10.4
// Hints:       ./workbook hint 10.4
// Targets:     the optimizer's numbers in f32, whatever the gradient's type; weights that are the
//              master weights, rounded; without master weights, an update in f32 that is rounded
//              away
//
// chapters/10_mixed_precision/master_weights.hpp declares the functions.
#include "chapters/10_mixed_precision/master_weights.hpp"

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

// TODO 1: where the optimizer keeps weights of its own.
void update_with_master([[maybe_unused]] const Tensor& weights,
                        [[maybe_unused]] const Tensor& gradient,
                        [[maybe_unused]] const Tensor& master,
                        [[maybe_unused]] const OptimizerUpdate& update) {
  throw NotWritten("10.4 master_weights");
}

// TODO 2: where it does not.
Tensor update_without_master([[maybe_unused]] const Tensor& weights,
                             [[maybe_unused]] const Tensor& gradient,
                             [[maybe_unused]] const OptimizerUpdate& update) {
  throw NotWritten("10.4 master_weights");
}

}  // namespace ultra::mixed_precision
