#include "common/tensor/backend/device_side.hpp"

#include <gtest/gtest.h>

namespace ultra::backend {
namespace {

simt::Side side_of(const Device& device) {
  return on_side_of(device, []<simt::Side side>() { return side; });
}

TEST(DeviceSide, TheEmulatedDeviceRunsTheBareSide) {
  EXPECT_EQ(side_of(Device::create(DeviceKind::kEmulated)), simt::Side::kBare);
}

TEST(DeviceSide, TheHostRunsNone) { EXPECT_THROW(side_of(Device::cpu()), InternalError); }

}  // namespace
}  // namespace ultra::backend
