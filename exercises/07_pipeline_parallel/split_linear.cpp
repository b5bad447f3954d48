// Exercise 07.4: the backward pass of a linear map in two parts.
//
// Goal:        send the gradient of the input on at once, and make that of the weight later.
// Length:      about 12 lines
// Difficulty:  easy
// Check:       ./workbook check 07.4
// Hints:       ./workbook hint 07.4
// Targets:     both gradients, for one map and for several of one input;
//              with a queue no gradient of a weight before it runs, and the same bits afterwards;
//              two micro-batches that wait at the same time
//
// chapters/07_pipeline_parallel/split_linear.hpp declares the function.
#include "chapters/07_pipeline_parallel/split_linear.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// TODO 1: the gradient of the input, now.
// TODO 2: the gradient of each weight, by way of nn::Parameter::add_grad: what it is made of must
// still be there when it is made.
Tensor split_backward([[maybe_unused]] std::span<const Tensor> d_y,
                      [[maybe_unused]] const Tensor& x,
                      [[maybe_unused]] std::span<nn::Parameter* const> weights) {
  throw NotWritten("07.4 split_backward");
}

}  // namespace ultra::pipeline_parallel
