// Tensors on a device with streams: the same as on the CPU, and nothing that the host could read.
//
// Covers: common/tensor/backend/device_copies.hpp
// Covers: common/tensor/backend/generic_operands.hpp
// Covers: common/tensor/synchronize.hpp
// Covers: common/tensor/host_view.hpp

#include "common/gpu/streams.hpp"
#include "common/tensor/host_view.hpp"
#include "common/tensor/synchronize.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kF16};

class DeviceTensor : public test::RandomTest {
 protected:
  static Device device_with_streams(int rank) {
    const bool on_gpu = test::device_kind_of_tests() == DeviceKind::kCuda;
    return Device::create(on_gpu ? DeviceKind::kCuda : DeviceKind::kEmulated, rank);
  }

  /// Small integers, which every type holds.
  Tensor integers(const Shape& shape, DType dtype) {
    std::vector<std::int32_t> values(shape.numel());
    for (std::int32_t& value : values) value = static_cast<std::int32_t>(random.between(0, 100));
    const Tensor t = Tensor::from<std::int32_t>(cpu, shape, values);
    if (dtype == DType::kI32) return t;
    std::vector<double> wide(values.begin(), values.end());
    return Tensor::from<double>(cpu, shape, wide).to(dtype);
  }

  Shape shape() { return {random.between(1, 5), random.between(1, 9), random.between(1, 40)}; }

  Tensor some_view(const Tensor& t) {
    const std::size_t begin = random.between(0, t.size(1) - 1);
    const Tensor part = t.slice(1, {begin, random.between(begin + 1, t.size(1))});
    return random.between(0, 1) == 0 ? part : part.transpose(0, 2);
  }

  Device cpu = Device::cpu();
  Device gpu = device_with_streams(0);
};

TEST_F(DeviceTensor, TheHostCannotReadItAndIsToldWhatToDo) {
  const Tensor t = Tensor::zeros(gpu, {2, 3}, DType::kF32);
  const std::string message = message_of<ShapeError>([&] { return t.data<float>(); });
  EXPECT_THAT(message, HasSubstr("[2, 3] of f32 is on"));
  EXPECT_THAT(message, HasSubstr("HostView"));
  EXPECT_THROW(static_cast<void>(t.span<float>()), ShapeError);
}

TEST_F(DeviceTensor, GoesThereAndBackInEveryType) {
  for (const DType dtype : kAll) {
    const Tensor t = integers(shape(), dtype);
    const Tensor there = t.to(gpu);
    EXPECT_EQ(there.device(), gpu);
    EXPECT_EQ(there.to(cpu).to_vector(), t.to_vector());
    EXPECT_EQ(there.to_vector(), t.to_vector());
  }
}

TEST_F(DeviceTensor, IsCopiedClonedFilledAndMadeContiguousAsOnTheCpu) {
  for (const DType dtype : kAll) {
    const Tensor on_cpu = integers(shape(), dtype);
    const Tensor on_gpu = on_cpu.to(gpu);
    const auto compare = [&](const Tensor& expected, const Tensor& found) {
      EXPECT_EQ(found.device(), gpu);
      EXPECT_EQ(found.to_vector(), expected.to_vector());
    };
    compare(on_cpu.clone(), on_gpu.clone());
    compare(on_cpu.transpose(0, 2).contiguous(), on_gpu.transpose(0, 2).contiguous());
    const std::size_t end = random.between(1, on_cpu.size(2));
    on_cpu.slice(2, {0, end}).fill(3);
    on_gpu.slice(2, {0, end}).fill(3);
    compare(on_cpu, on_gpu);
    on_cpu.fill(0);
    on_gpu.fill(0);
    compare(on_cpu, on_gpu);
    compare(Tensor::zeros(cpu, {3}, dtype), Tensor::zeros(gpu, {3}, dtype));
  }
}

TEST_F(DeviceTensor, IsConvertedAsOnTheCpu) {
  for (const DType from : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const DType to : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      const Tensor t = random.tensor(cpu, shape(), DType::kF64).to(from);
      const Tensor view = some_view(t);
      const std::vector<double> expected = view.to(to).to_vector();
      EXPECT_EQ(t.to(gpu).to(to).to_vector(), t.to(to).to_vector());
      const Tensor there = Tensor::zeros(gpu, view.shape(), to);
      cast_into(there, view);
      EXPECT_EQ(there.to_vector(), expected);
      const Tensor back = Tensor::zeros(cpu, view.shape(), to);
      cast_into(back, view.to(gpu));
      EXPECT_EQ(back.to_vector(), expected);
    }
  }
}

TEST_F(DeviceTensor, GoesFromRankToRank) {
  const Device other = device_with_streams(1);
  const Tensor t = integers({4, 5}, DType::kF32);
  const Tensor here = t.to(gpu);
  const Tensor there = here.to(other);
  here.fill(0);  // behind the copy
  EXPECT_EQ(there.device(), other);
  EXPECT_EQ(there.to_vector(), t.to_vector());
}

TEST_F(DeviceTensor, NothingWaitsButACopyToTheHost) {
  gpu::Streams& streams = gpu.streams();
  const Tensor t = random.tensor(cpu, {8, 8}, DType::kF32).to(gpu);
  t.transpose(0, 1).contiguous().fill(2);
  static_cast<void>(t.to(DType::kBF16).clone());
  EXPECT_EQ(streams.synchronizations(), 0U);
  static_cast<void>(t.to(cpu));
  EXPECT_EQ(streams.synchronizations(), 1U);
}

TEST_F(DeviceTensor, AMemoryThatAnotherStreamUsedIsNotReusedBeforeIt) {
  Tensor t = Tensor::zeros(gpu, {64}, DType::kF32);
  void* const block = t.address();
  t.used_on(gpu::StreamRole::kCopy);
  gpu.streams().wait(gpu::StreamRole::kCopy, gpu.streams().record(gpu::StreamRole::kCompute));
  {
    const gpu::StreamScope scope(gpu::StreamRole::kCopy);
    t.fill(1);
  }
  t = Tensor();
  const Tensor next = Tensor::zeros(gpu, {64}, DType::kF32);
  if (gpu.kind() == DeviceKind::kEmulated) {
    EXPECT_EQ(next.address(), block);
  }
  EXPECT_THAT(next.to_vector(), Each(0));
}

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

Tensor two_by_three(const Device& device) { return Tensor::from<float>(device, {2, 3}, kSix); }

TEST(HostView, OfAStridedViewOnTheCpuHasItsStrides) {
  const Tensor t = two_by_three(Device::cpu()).transpose(0, 1);
  const HostView<const float> x(t);
  EXPECT_EQ(x.strides(), t.strides());
  EXPECT_THROW(static_cast<void>(x.span()), ShapeError);
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

}  // namespace
}  // namespace ultra
