// Exercise 05.7: the matrices of latent attention, absorbed.
//
// Goal:        multiply what leads to queries into what leads to keys, and outputs into values.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 05.7
// Hints:       ./workbook hint 05.7
// Targets:     scores and outputs of latents as with the four matrices, to rounding;
//              what is rotated has no part in it
// You will need: ops::matmul_into (common/ops/matmul.hpp), which takes views of rows, and of columns
//
// chapters/05_tensor_sequence_parallel/absorbed_matrices.hpp declares the function, and says how heads
// stand in the weights.
#include "chapters/05_tensor_sequence_parallel/absorbed_matrices.hpp"

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {

// TODO 1: where the rows of a head's W_Q, W_K and W_V are, and the columns of its W_O.
// TODO 2: two products for each head.
AbsorbedMatrices absorb_matrices([[maybe_unused]] const Tensor& query,
                                 [[maybe_unused]] const Tensor& key_value,
                                 [[maybe_unused]] const Tensor& output,
                                 [[maybe_unused]] const nn::LatentAttention& sizes) {
  throw NotWritten("05.7 absorbed_matrices");
}

}  // namespace ultra::tensor_parallel
