#pragma once
/// @file
/// Which side of the kernels a device runs.

#include <utility>

#include "build_config.hpp"
#include "kernels/simt/side.hpp"

namespace ultra::gpu {

/// @brief Calls `fn.operator()<Side::kGpu>()` for a GPU, else `<Side::kBare>()`. In a build without
/// CUDA, where no device is a GPU, only the second is compiled.
template <class Fn>
decltype(auto) on_side([[maybe_unused]] bool is_gpu, Fn&& fn) {
  if constexpr (build::kHasCuda) {
    if (is_gpu) return fn.template operator()<simt::Side::kGpu>();
  }
  return fn.template operator()<simt::Side::kBare>();
}

}  // namespace ultra::gpu
