#include "common/train/gradients/gradient_norm.hpp"

#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

TEST(StepSums, OfTheCpuAreTheHosts) {
  const Device device = Device::cpu();
  StepSums sums(device, 2);
  sums.add_squares(1, Tensor::from<float>(device, {2}, std::vector<float>{3, 4}));
  sums.add_squares(1, Tensor::from<float>(device, {1}, std::vector<float>{1}));
  EXPECT_FALSE(sums.loss_on_device().defined());
  EXPECT_THAT(sums.read(), ElementsAre(0, 26, 0));
  sums.begin();
  EXPECT_THAT(sums.read(), Each(0));
}

TEST(StepSums, ADeviceAddsUpSeveralLosses) {
  const Device device = Device::create(DeviceKind::kEmulated);
  StepSums sums(device, 1, 2);
  sums.begin();
  sums.loss_on_device(0).fill(7);
  sums.loss_on_device(1).fill(3);
  EXPECT_THAT(sums.read(), ElementsAre(0, 7, 3));
  EXPECT_EQ(StepSums(Device::cpu(), 3, 2).read().size(), 5U);
}

TEST(StepSums, OfADeviceStayThereUntilTheyAreRead) {
  const Device device = Device::create(DeviceKind::kEmulated);
  StepSums sums(device, 2);
  sums.add_squares(0, Tensor::from<float>(device, {2}, std::vector<float>{3, 4}));
  sums.add_squares(0, Tensor::from<float>(device, {1}, std::vector<float>{1}));
  sums.loss_on_device().fill(7);
  EXPECT_EQ(device.streams().synchronizations(), 0U);
  EXPECT_THAT(sums.read(), ElementsAre(26, 0, 7));
  EXPECT_EQ(device.streams().synchronizations(), 1U);
  sums.begin();
  EXPECT_THAT(sums.read(), Each(0));
}

}  // namespace
}  // namespace ultra::train
