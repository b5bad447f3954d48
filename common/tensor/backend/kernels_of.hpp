#pragma once
/// @file
/// The kernels of the device that a tensor is on.

#include "common/base/errors.hpp"
#include "common/gpu/runtime.hpp"
#include "common/tensor/device.hpp"
#include "kernels/table/table.hpp"

namespace ultra::backend {

/// @brief The kernels of a device with streams.
/// @throws InternalError for the host.
[[nodiscard]] inline const kernels::Table& kernels_of(const Device& device) {
  ensure(has_streams(device.kind()), "a tensor on a device with streams");
  return device.runtime().kernels();
}

}  // namespace ultra::backend
