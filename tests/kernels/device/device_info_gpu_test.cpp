// What list_devices() says of a real GPU.

#include <gtest/gtest.h>

#include "kernels/device/device_info.hpp"

namespace ultra::kernels {
namespace device_info_gpu_test {

TEST(DeviceInfo, DescribesEachGpu) {
  const auto devices = list_devices();
  if (devices.empty()) {
    GTEST_SKIP() << "no GPU on this machine";
  }
  constexpr std::size_t kOneGiB = std::size_t{1} << 30;
  for (const DeviceInfo& device : devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.memory_bytes, kOneGiB);
    EXPECT_GE(device.compute_capability_major, 5);
  }
}

}  // namespace device_info_gpu_test
}  // namespace ultra::kernels
