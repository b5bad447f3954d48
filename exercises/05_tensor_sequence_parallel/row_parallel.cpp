// Exercise 05.2: row parallelism.
//
// Goal:        compute this rank's part of every output, and let the ranks add the parts up.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 05.2
// Hints:       ./workbook hint 05.2
// Targets:     outputs and gradients of the dense layer with the whole weight, the bias counted once;
//              the gradient of the bias from this rank's tokens;
//              the region's leave() and leave_backward() once each, and nothing else sent
// You will need: what 05.1 needs
//
// chapters/05_tensor_sequence_parallel/row_parallel.hpp declares the class, and add_bias() and
// sum_rows_into(), which are there for you; region.hpp, beside it, is what it communicates with.
#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"

#include "common/base/errors.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {

// TODO 1: save the input as "input", compute this rank's part of the outputs, and let it leave the
// region. The bias, if there is one, belongs to the outputs: where is it counted once?
Tensor RowParallelLinear::forward([[maybe_unused]] const Tensor& x,
                                  [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("05.2 row_parallel: forward");
}

// TODO 2: get the gradient of all tokens' outputs. From it come the gradients of this rank's inputs
// and of the weight.
// TODO 3: the gradient of the bias, if there is one, is the sum over this rank's tokens.
Tensor RowParallelLinear::backward([[maybe_unused]] const Tensor& d_y,
                                   [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("05.2 row_parallel: backward");
}

}  // namespace ultra::tensor_parallel
