#include "common/ops/rms_norm.hpp"

#include <span>

#include "common/ops/backend/backend.hpp"
#include "common/ops/dtype_check.hpp"

namespace ultra::ops {
namespace {

Shape without_last(const Shape& shape) { return Shape(shape.dims().first(shape.rank() - 1)); }

}  // namespace

RmsNormResult rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  expect_stored_or_sums("weight of rms_norm", weight, {x.size(-1)}, x.dtype());
  const RmsNormResult result{
      Tensor::empty(x.device(), x.shape(), x.dtype()),
      Tensor::empty(x.device(), without_last(x.shape()), accumulation_dtype(x.dtype()))};
  backend_of(x.device()).rms_norm(result.y, result.reciprocal_rms, x, weight, epsilon);
  return result;
}

Tensor rms_norm_backward(const Tensor& d_y, const Tensor& x, const Tensor& weight,
                         const Tensor& reciprocal_rms, const Tensor& d_weight, Write write) {
  expect_tensor("d_y of rms_norm_backward", d_y, x.shape(), x.dtype());
  expect_stored_or_sums("weight of rms_norm_backward", weight, {x.size(-1)}, x.dtype());
  expect_stored_or_sums("d_weight of rms_norm_backward", d_weight, weight.shape(), x.dtype());
  expect_tensor("reciprocal_rms of rms_norm_backward", reciprocal_rms, without_last(x.shape()),
                accumulation_dtype(x.dtype()));
  const Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  backend_of(x.device()).rms_norm_backward(d_x, d_weight, write, d_y, x, weight, reciprocal_rms);
  return d_x;
}

}  // namespace ultra::ops
