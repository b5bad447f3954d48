// list_devices() must answer on every machine, with a GPU or not.

#include "kernels/device/device_info.hpp"

#include <gtest/gtest.h>

#include "build_config.hpp"

namespace ultra::kernels {
namespace device_info_test {

TEST(DeviceInfo, WithoutCudaThereAreNoDevices) {
  if (build::kHasCuda) {
    GTEST_SKIP() << "this build has CUDA";
  }
  EXPECT_TRUE(list_devices().empty());
}

}  // namespace device_info_test
}  // namespace ultra::kernels
