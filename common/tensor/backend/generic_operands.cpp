#include "common/tensor/backend/generic_operands.hpp"

namespace ultra::backend {

using kernels::generic::Number;

Number number_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Number::kF32;
    case DType::kF64:
      return Number::kF64;
    case DType::kI32:
      return Number::kI32;
    case DType::kBF16:
      return Number::kBf16;
    case DType::kF16:
      break;
  }
  return Number::kF16;
}

kernels::generic::Source source_of(const Tensor& tensor) {
  return {number_of(tensor.dtype()), tensor.address()};
}

kernels::generic::Target target_of(const Tensor& tensor) {
  return {number_of(tensor.dtype()), tensor.address()};
}

kernels::generic::Layout layout_of(const Tensor& tensor) {
  static_assert(kernels::generic::kMostDimensions >= static_cast<int>(Shape::kMaxRank));
  kernels::generic::Layout layout;
  layout.rank = static_cast<int>(tensor.shape().rank());
  for (int d = 0; d < layout.rank; ++d) {
    layout.extents[d] = tensor.shape()[d];
    layout.strides[d] = tensor.strides()[d];
  }
  return layout;
}

}  // namespace ultra::backend
