#pragma once
/// @file
/// Emulated devices of a compute capability that a test chooses.

#include <cstdlib>
#include <string>

#include "common/tensor/device.hpp"

namespace ultra::test {

/// @brief A new emulated device of this compute capability: "9", or "" for the plain one.
[[nodiscard]] inline Device emulated_device(const char* capability) {
  const char* const kVariable = "ULTRA_EMULATED_CAPABILITY";
  const char* const found = std::getenv(kVariable);
  const std::string before = found == nullptr ? "" : found;
  setenv(kVariable, capability, 1);
  const Device device = Device::create(DeviceKind::kEmulated);
  setenv(kVariable, before.c_str(), 1);
  return device;
}

}  // namespace ultra::test
