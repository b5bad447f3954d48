#pragma once
/// @file
/// The host waits for a device: where a time is taken, never within a training step.

#include "common/gpu/streams.hpp"
#include "common/tensor/device.hpp"

namespace ultra {

/// @brief Returns when the device has done all that the calling thread's stream has been given; at
/// once on the CPU.
/// @throws Error when work of the device has failed.
inline void synchronize(const Device& device) {
  if (has_streams(device.kind())) device.streams().synchronize(gpu::current_role());
}

}  // namespace ultra
