#include "common/ops/dtype_check.hpp"

namespace ultra::ops {

void expect_stored_or_sums(const char* name, const Tensor& tensor, const Shape& shape,
                           DType dtype) {
  const bool sums = tensor.defined() && tensor.dtype() == accumulation_dtype(dtype);
  expect_tensor(name, tensor, shape, sums ? tensor.dtype() : dtype);
}

void expect_converts(const char* name, const Tensor& tensor, const Shape& shape, DType dtype) {
  const auto meets_f32 = [](DType type) { return accumulation_dtype(type) == DType::kF32; };
  const bool converts = tensor.defined() && meets_f32(dtype) && meets_f32(tensor.dtype());
  expect_tensor(name, tensor, shape, converts ? tensor.dtype() : dtype);
}

}  // namespace ultra::ops
