#pragma once
/// @file
/// A fixture for operations on a device with streams beside the same on the CPU.

#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {

/// @brief A device with streams: that of the tests where it has some, else the emulated one.
class DeviceBackendTest : public test::RandomTest {
 protected:
  DeviceBackendTest() {
    if (!has_streams(device.kind())) device = Device::create(DeviceKind::kEmulated);
  }

  /// @brief Normal numbers that an f32, f64 or two-byte tensor of that type holds, on the CPU.
  [[nodiscard]] Tensor numbers(const Shape& shape, DType dtype, double scale = 1.0) {
    return random.tensor(cpu, shape, dtype, scale);
  }

  /// @brief The same tensor on the device.
  [[nodiscard]] Tensor there(const Tensor& tensor) const { return tensor.to(device); }

  Device cpu = Device::cpu();  ///< whose backend the results are compared with
};

}  // namespace ultra::ops
