#include "common/ops/elementwise.hpp"

#include "common/ops/backend/backend.hpp"
#include "common/ops/dtype_check.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::ops {

Tensor add(const Tensor& a, const Tensor& b) {
  expect_tensor("second term of add", b, a.shape(), a.dtype());
  const Tensor out = Tensor::empty(a.device(), a.shape(), a.dtype());
  backend_of(a.device()).add(out, a, b);
  return out;
}

void add_into(const Tensor& a, const Tensor& b) {
  expect_converts("term of add_into", b, a.shape(), a.dtype());
  backend_of(a.device()).add(a, a, b);
}

void write_or_add(const Tensor& a, const Tensor& b, Write write) {
  if (write == Write::kAccumulate) {
    add_into(a, b);
  } else {
    expect_converts("source of write_or_add", b, a.shape(), a.dtype());
    cast_into(a, b);
  }
}

void scale_into(const Tensor& a, double factor) { backend_of(a.device()).scale(a, factor); }

void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) {
  expect_tensor("sum of sum_of_squares_into", sum, {digits_of_sums(x.device())}, DType::kF64);
  backend_of(x.device()).sum_of_squares_into(sum, x, write);
}

double sum_of_squares(const Tensor& x) { return backend_of(x.device()).sum_of_squares(x); }

}  // namespace ultra::ops
