// Exercise 10.4: the update of master weights.
//
// Goal:        let updates add up that are smaller than the last bit of the weights, with two bytes
//              more per weight instead of four.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 10.4
// Hints:       ./workbook hint 10.4
// Targets:     the optimizer's numbers in f32, whatever the gradient's type; weights that are the
//              master weights, rounded; without master weights, an update in f32 that is rounded
//              away; a split that gives the nearest weight and the master back, bit for bit
// You will need: cast(tensor, dtype) and cast_into(to, from) (common/tensor/tensor.hpp), std::bit_cast
//
// chapters/10_mixed_precision/master_weights.hpp declares the functions.
#include "chapters/10_mixed_precision/master_weights.hpp"

#include <bit>

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

// TODO 3: the weight and the rest of a master weight. When has the upper half of the bits to be one
// more than it was?
SplitMaster split([[maybe_unused]] float master) { throw NotWritten("10.4 master_weights"); }

// TODO 4: the way back. From which of the two halves can you see whether one was added?
float joined([[maybe_unused]] const SplitMaster& split) { throw NotWritten("10.4 master_weights"); }

}  // namespace ultra::mixed_precision
