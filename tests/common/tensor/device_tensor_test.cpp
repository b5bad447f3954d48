// Tensors on a device with streams: the same as on the CPU, and nothing that the host could read.
// Covers: common/tensor/backend/device_copies.hpp
// Covers: common/tensor/backend/generic_operands.hpp
// Covers: common/tensor/synchronize.hpp

#include "common/gpu/order_checker.hpp"
#include "common/gpu/streams.hpp"
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

TEST_F(DeviceTensor, ViewsGoThereAndBack) {
  for (const DType dtype : kAll) {
    const Tensor view = some_view(integers(shape(), dtype));
    const Tensor there = view.to(gpu);
    EXPECT_EQ(there.to_vector(), view.to_vector());
    const Tensor back = Tensor::zeros(cpu, view.shape(), dtype);
    back.transpose(0, 1).copy_from(there.transpose(0, 1));
    EXPECT_EQ(back.to_vector(), view.to_vector());
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

TEST_F(DeviceTensor, RefusesWhatTheCpuRefuses) {
  const Tensor t = integers({2, 2}, DType::kI32).to(gpu);
  EXPECT_THROW(static_cast<void>(t.to(DType::kF32)), ShapeError);
  EXPECT_THROW(t.copy_from(Tensor::zeros(gpu, {4}, DType::kI32)), ShapeError);
  EXPECT_THROW(static_cast<void>(t.transpose(0, 1).view({4})), ShapeError);
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

TEST_F(DeviceTensor, EmptyOnesAreFine) {
  const Tensor t = Tensor::zeros(gpu, {0, 3}, DType::kF32);
  EXPECT_TRUE(t.to_vector().empty());
  EXPECT_EQ(t.to(cpu).numel(), 0U);
  t.fill(1);
}

TEST_F(DeviceTensor, IsCountedToTheByte) {
  const Tensor t = Tensor::zeros(gpu, {3}, DType::kF32, MemoryCategory::kGradients);
  EXPECT_EQ(gpu.memory().current()[MemoryCategory::kGradients], 12U);
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

TEST_F(DeviceTensor, TheHostWaitsForADeviceWhenItIsAskedTo) {
  synchronize(cpu);
  synchronize(gpu);
  EXPECT_EQ(gpu.streams().synchronizations(), 1U);
}

TEST_F(DeviceTensor, TheOrderCheckerSeesTheTensorsOfOtherStreams) {
  if (gpu.kind() != DeviceKind::kEmulated) GTEST_SKIP() << "only the emulated device checks orders";
  const Tensor t = Tensor::zeros(gpu, {4, 4}, DType::kF32);
  t.slice(1, {0, 2}).fill(1);
  {
    const gpu::StreamScope scope(gpu::StreamRole::kCommunication);
    EXPECT_THROW(t.fill(2), gpu::OrderError);
    gpu.streams().wait(gpu::StreamRole::kCommunication,
                       gpu.streams().record(gpu::StreamRole::kCompute));
    t.slice(1, {2, 4}).fill(2);
  }
  t.slice(1, {0, 2}).fill(3);
  const std::string message = message_of<gpu::OrderError>([&] { return t.to_vector(); });
  EXPECT_THAT(message, HasSubstr("communication stream writes them in fill"));
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

}  // namespace
}  // namespace ultra
