#pragma once
/// @file
/// What of a device's memory a tensor's view covers, for the order checker.

#include "common/gpu/region.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra {

/// @brief The bytes of a view: one run where they stand together, else its rows, else all from the
/// first to the last. Empty for an undefined tensor or one without elements.
[[nodiscard]] gpu::Region region_of(const Tensor& tensor);

}  // namespace ultra
