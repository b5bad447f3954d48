#include "common/optim/newton_schulz.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::optim {

// [region newton_schulz]
void newton_schulz(const Tensor& matrix, const NewtonSchulz& constants) {
  using ops::Transpose;
  ensure(matrix.shape().rank() == 2, "Newton-Schulz steps are of a matrix");
  const auto [a, b, c, steps, epsilon] = constants;
  const Tensor& x = matrix;
  // The smaller Gram matrix: x x^T of a wide matrix, x^T x of a tall one.
  const bool wide = x.shape()[0] <= x.shape()[1];
  ops::scale_into(x, 1.0 / (std::sqrt(ops::sum_of_squares(x)) + epsilon));
  for (std::size_t step = 0; step < steps; ++step) {
    const Tensor gram = wide ? ops::matmul(x, Transpose::kNo, x, Transpose::kYes)
                             : ops::matmul(x, Transpose::kYes, x, Transpose::kNo);  // [m, m]
    const Tensor factor = ops::matmul(gram, Transpose::kNo, gram, Transpose::kNo);  // [m, m]
    ops::scale_into(factor, c);
    ops::scale_into(gram, b);
    ops::add_into(factor, gram);
    const Tensor higher = wide ? ops::matmul(factor, Transpose::kNo, x, Transpose::kNo)
                               : ops::matmul(x, Transpose::kNo, factor, Transpose::kNo);
    ops::scale_into(x, a);
    ops::add_into(x, higher);
  }
}
// [/region]

std::size_t newton_schulz_flops(std::size_t rows, std::size_t columns, std::size_t steps) {
  const std::size_t m = std::min(rows, columns);
  const std::size_t n = std::max(rows, columns);
  return steps * (4 * n * m * m + 2 * m * m * m);
}

}  // namespace ultra::optim
