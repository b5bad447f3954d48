#include "common/tensor/host_view.hpp"

#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

Tensor two_by_three(const Device& device) { return Tensor::from<float>(device, {2, 3}, kSix); }

TEST(HostView, OnTheCpuItIsTheTensorsOwnMemory) {
  const Device device = Device::cpu();
  const Tensor t = two_by_three(device);
  const HostView<const float> x(t);
  EXPECT_EQ(x.data(), t.data<float>());
  HostView<float> y(t, HostAccess::kReadWrite);
  y[1] = 7;
  EXPECT_EQ(x[1], 7);
  EXPECT_EQ(device.system_allocations(), 1U);
}

TEST(HostView, OfAStridedViewOnTheCpuHasItsStrides) {
  const Tensor t = two_by_three(Device::cpu()).transpose(0, 1);
  const HostView<const float> x(t);
  EXPECT_EQ(x.strides(), t.strides());
  EXPECT_THROW(static_cast<void>(x.span()), ShapeError);
}

TEST(HostView, RefusesAnotherType) {
  const Tensor t = two_by_three(Device::cpu());
  EXPECT_THROW(HostView<const double>{t}, ShapeError);
  EXPECT_THROW(HostView<const float>{Tensor()}, ShapeError);
}

/// On a device with streams.
class DeviceHostView : public ::testing::Test {
 protected:
  Device device =
      Device::create(test::device_kind_of_tests() == DeviceKind::kCuda ? DeviceKind::kCuda
                                                                       : DeviceKind::kEmulated);
  Tensor tensor = two_by_three(device);
};

TEST_F(DeviceHostView, ReadsACopyAndWaitsForIt) {
  const std::uint64_t before = device.streams().synchronizations();
  const HostView<const float> x(tensor);
  EXPECT_THAT(x.span(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(device.streams().synchronizations(), before + 1);
}

TEST_F(DeviceHostView, WritesBackAtItsEndWithoutAWait) {
  const std::uint64_t before = device.streams().synchronizations();
  {
    const HostView<float> y(tensor, HostAccess::kWrite);
    std::ranges::fill(y, 9.0F);
  }
  EXPECT_EQ(device.streams().synchronizations(), before);
  EXPECT_THAT(tensor.to_vector(), Each(9));
}

TEST_F(DeviceHostView, ReadsAndWritesBackWhenItIsToldTo) {
  HostView<float> y(tensor, HostAccess::kReadWrite);
  y[0] += 10;
  EXPECT_EQ(tensor.to_vector()[0], 1);
  y.finish();
  EXPECT_EQ(tensor.to_vector()[0], 11);
  y[0] = 0;  // the view has ended
}

TEST_F(DeviceHostView, OfAStridedViewIsDense) {
  const Tensor columns = tensor.slice(1, {1, 3});
  {
    const HostView<float> y(columns, HostAccess::kReadWrite);
    EXPECT_EQ(y.strides(), Shape({2, 1}));
    EXPECT_THAT(y.span(), ElementsAre(2, 3, 5, 6));
    for (float& value : y) value = -value;
  }
  EXPECT_THAT(tensor.to_vector(), ElementsAre(1, -2, -3, 4, -5, -6));
}

TEST_F(DeviceHostView, AnExceptionWritesNothingBack) {
  EXPECT_THROW(
      {
        const HostView<float> y(tensor, HostAccess::kReadWrite);
        y[0] = 100;
        throw ConfigError("wrong");
      },
      ConfigError);
  EXPECT_EQ(tensor.to_vector()[0], 1);
}

TEST_F(DeviceHostView, DoesNotCountAsTheDevicesMemory) {
  const std::size_t before = device.memory().current().total();
  const HostView<const float> x(tensor);
  EXPECT_EQ(device.memory().current().total(), before);
}

}  // namespace
}  // namespace ultra
