#include "chapters/04_zero/whole_matrices/gram_newton_schulz.hpp"

#include <cmath>
#include <vector>

#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::zero {
namespace {

using ops::Transpose;

/// (factor I + a) b.
Tensor product(double factor, const Tensor& a, const Tensor& b) {
  const Tensor sum = b.clone();
  ops::scale_into(sum, factor);
  ops::add_into(sum, ops::matmul(a, Transpose::kNo, b, Transpose::kNo));
  return sum;
}

Tensor identity_like(const Tensor& gram) {
  const std::size_t size = gram.shape()[0];
  std::vector<double> elements(size * size, 0.0);
  for (std::size_t i = 0; i < size; ++i) elements[i * size + i] = 1.0;
  return Tensor::from<double>(Device::cpu(), gram.shape(), elements)
      .to(gram.dtype())
      .to(gram.device());
}

}  // namespace

// [region gram_newton_schulz]
void gram_newton_schulz(const Tensor& matrix, const optim::NewtonSchulz& constants) {
  const auto [a, b, c, steps, epsilon] = constants;
  ops::scale_into(matrix, 1.0 / (std::sqrt(ops::sum_of_squares(matrix)) + epsilon));
  const bool wide = matrix.shape()[0] <= matrix.shape()[1];
  Tensor gram = wide ? ops::matmul(matrix, Transpose::kNo, matrix, Transpose::kYes)
                     : ops::matmul(matrix, Transpose::kYes, matrix, Transpose::kNo);  // [m, m]
  Tensor all = identity_like(gram);  // the product of the steps so far
  for (std::size_t step = 1; step <= steps; ++step) {
    const Tensor factor = product(b / c, gram, gram);  // without a I: (b I + c R) R
    ops::scale_into(factor, c);
    all = product(a, factor, all);
    if (step < steps) gram = product(a, factor, product(a, factor, gram));
  }
  matrix.copy_from(wide ? ops::matmul(all, Transpose::kNo, matrix, Transpose::kNo)
                        : ops::matmul(matrix, Transpose::kNo, all, Transpose::kNo));
}
// [/region]

}  // namespace ultra::zero
