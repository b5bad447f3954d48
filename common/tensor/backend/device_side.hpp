#pragma once
/// @file
/// Which side of the kernels runs for a tensor.

#include <utility>

#include "common/base/errors.hpp"
#include "common/gpu/side.hpp"
#include "common/tensor/device.hpp"

namespace ultra::backend {

/// @brief gpu::on_side() for a device with streams.
/// @throws InternalError for the host.
template <class Fn>
decltype(auto) on_side_of(const Device& device, Fn&& fn) {
  ensure(has_streams(device.kind()), "a tensor on a device with streams");
  return gpu::on_side(device.kind() == DeviceKind::kCuda, std::forward<Fn>(fn));
}

}  // namespace ultra::backend
