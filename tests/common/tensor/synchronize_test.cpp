#include "common/tensor/synchronize.hpp"

#include <gtest/gtest.h>

#include "common/tensor/tensor.hpp"

namespace ultra {
namespace {

TEST(Synchronize, IsOneWaitOfTheHostAndNothingOnTheCpu) {
  EXPECT_NO_THROW(synchronize(Device::cpu()));
  const Device device = Device::create(DeviceKind::kEmulated);
  const Tensor zeros = Tensor::zeros(device, {4}, DType::kF32);
  const auto before = device.streams().synchronizations();
  synchronize(device);
  EXPECT_EQ(device.streams().synchronizations(), before + 1);
}

}  // namespace
}  // namespace ultra
