#pragma once
/// @file
/// Tensors as the generic kernels take them.

#include "common/tensor/tensor.hpp"
#include "kernels/generic/numbers.hpp"

namespace ultra::backend {

/// @brief The kernels' name of an element type.
[[nodiscard]] kernels::generic::Number number_of(DType dtype);

/// @brief A tensor's elements, to be read.
[[nodiscard]] kernels::generic::Source source_of(const Tensor& tensor);

/// @brief A tensor's elements, to be written.
[[nodiscard]] kernels::generic::Target target_of(const Tensor& tensor);

/// @brief Where a view's elements are.
[[nodiscard]] kernels::generic::Layout layout_of(const Tensor& tensor);

}  // namespace ultra::backend
