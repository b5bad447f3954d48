// Exercise 04.12: Newton-Schulz steps on the small side.
//
// Goal:        make the steps with products of small matrices, but for the first and the last.
// Length:      about 25 lines
// Difficulty:  medium
// Check:       ./workbook check 04.12
// Hints:       ./workbook hint 04.12
// Targets:     singular values as after optim::newton_schulz(): in f64 to 1e-9, and in their band;
//              wide and tall matrices, with the singular vectors that they had;
//              4 n m^2 + 36 m^3 operations at most for five steps of m x n
//
// chapters/04_zero/whole_matrices/gram_newton_schulz.hpp declares the function, and says how the steps
// come together.
#include "chapters/04_zero/whole_matrices/gram_newton_schulz.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: divide the matrix by its norm, and make the Gram matrix of its smaller side.
// TODO 2: the steps, of the Gram matrix and of the product of all factors; an identity to start from is
// made on the CPU and sent to the device: Tensor::from(...).to(dtype).to(device).
// TODO 3: the product times the matrix, on the side that fits.
void gram_newton_schulz([[maybe_unused]] const Tensor& matrix,
                        [[maybe_unused]] const optim::NewtonSchulz& constants) {
  throw NotWritten("04.12 gram_newton_schulz");
}

}  // namespace ultra::zero
