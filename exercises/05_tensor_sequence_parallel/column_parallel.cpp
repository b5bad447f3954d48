// Exercise 05.1: column parallelism.
//
// Goal:        compute this rank's outputs of linear maps, and communicate while something is computed.
// Length:      about 25 lines
// Difficulty:  medium
// Check:       ./workbook check 05.1
// Hints:       ./workbook hint 05.1
// Targets:     outputs, input gradient and weight gradients of the dense layer with whole weights;
//              the region's functions once for all maps, and nothing else sent;
//              "input" is saved as it came;
//              both exchanges of the backward pass are under way while a product runs
// You will need: ops::as_matrix() and ops::matmul_into() (common/ops/matmul.hpp),
//              nn::add_matmul_grad() (common/nn/parameter.hpp)
//
// chapters/05_tensor_sequence_parallel/column_parallel.hpp declares the class; region.hpp, beside it,
// is what it communicates with.
#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"

#include "common/base/errors.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {

// TODO 1: save the input as "input". Then let it enter the region, and give each map's outputs of all
// tokens.
std::vector<Tensor> ColumnParallelProjections::forward([[maybe_unused]] const Tensor& x,
                                                       [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("05.1 column_parallel: forward");
}

// TODO 2: let the saved input enter again, and do not wait for it yet.
// TODO 3: add up, over the maps, the input gradient that this rank's columns give; the last map first.
// TODO 4: now the input is needed. Begin to turn what you have into the gradient of this rank's
// tokens, and make the weights' gradients meanwhile; the last map's first.
// TODO 5: wait for the gradient, and return it.
Tensor ColumnParallelProjections::backward([[maybe_unused]] std::span<const Tensor> d_y,
                                           [[maybe_unused]] nn::Saved& saved) {
  throw NotWritten("05.1 column_parallel: backward");
}

}  // namespace ultra::tensor_parallel
