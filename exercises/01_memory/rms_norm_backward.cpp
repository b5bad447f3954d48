// Exercise 01.2: the backward pass of RMSNorm.
//
// Goal:        derive a backward pass by hand, and see which two things the forward pass must keep.
// Length:      about 10 lines
// Difficulty:  medium
// Check:       ./workbook check 01.2
// Hints:       ./workbook hint 01.2
// Targets:     relative error against finite differences below 1e-6 in f64;
//              kept per row: the input and one number, never the output
//
// chapters/01_memory/rms_norm_backward.hpp declares the function and names its arguments.
#include "chapters/01_memory/rms_norm_backward.hpp"

#include "common/base/errors.hpp"

namespace ultra::memory {

// The forward pass of a row is y_i = x_i r w_i with r = 1 / sqrt(mean_j(x_j^2) + epsilon).
//
// TODO 1: d_weight_i. It adds up over the rows of the batch, so add to it.
// TODO 2: d_x_i. x_i reaches the loss twice: through its own y_i, and through r, on which every y_j
//         depends. Differentiate r by x_i first.
template <FloatingScalar T>
void rms_norm_backward_row([[maybe_unused]] std::span<const T> d_y,
                           [[maybe_unused]] std::span<const T> x,
                           [[maybe_unused]] std::span<const T> weight,
                           [[maybe_unused]] T reciprocal_rms, [[maybe_unused]] std::span<T> d_x,
                           [[maybe_unused]] std::span<T> d_weight) {
  throw NotWritten("01.2 rms_norm_backward_row");
}

template void rms_norm_backward_row<float>(std::span<const float>, std::span<const float>,
                                           std::span<const float>, float, std::span<float>,
                                           std::span<float>);
template void rms_norm_backward_row<double>(std::span<const double>, std::span<const double>,
                                            std::span<const double>, double, std::span<double>,
                                            std::span<double>);

}  // namespace ultra::memory
