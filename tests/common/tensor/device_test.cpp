// Covers: common/tensor/synchronize.hpp
// Covers: common/tensor/backend/kernels_of.hpp

#include "common/tensor/device.hpp"

#include "common/gpu/runtime.hpp"
#include "common/tensor/backend/kernels_of.hpp"
#include "common/tensor/synchronize.hpp"
#include "common/tensor/tensor.hpp"
#include "kernels/device/device_info.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using enum MemoryCategory;

TEST(Device, TheEmulatedDevicePlaysAnH100WhereItIsAsked) {
  const char* const kVariable = "ULTRA_EMULATED_CAPABILITY";
  const char* const found = std::getenv(kVariable);
  const std::string before = found == nullptr ? "" : found;
  const auto capability = [&](const char* asked) {
    setenv(kVariable, asked, 1);
    return Device::create(DeviceKind::kEmulated).runtime().properties().compute_capability_major;
  };
  EXPECT_EQ(capability(""), 0);
  EXPECT_EQ(capability("9"), 9);
  EXPECT_THAT(message_of<ConfigError>([&] { capability("8"); }),
              HasSubstr("ULTRA_EMULATED_CAPABILITY is '8', expected 9"));
  setenv(kVariable, before.c_str(), 1);
}

TEST(Device, WithoutAGpuCudaIsRefusedInWords) {
  if (!kernels::list_devices().empty()) GTEST_SKIP() << "there is a GPU";
  const std::string message =
      message_of<ConfigError>([] { return Device::create(DeviceKind::kCuda); });
  EXPECT_THAT(message, HasSubstr("device cuda: "));
  EXPECT_THAT(message, HasSubstr("--device cpu or emulated"));
}

TEST(Device, PeaksAreLabelledAndReset) {
  const Device device = Device::cpu();
  device.set_phase("forward");
  static_cast<void>(Tensor::zeros(device, {100}, DType::kF64));
  device.set_phase("backward");
  EXPECT_EQ(device.memory().peak_total().bytes, 800U);
  EXPECT_EQ(device.memory().peak_total().phase, "forward");
  device.reset_memory_peaks();
  EXPECT_EQ(device.memory().peak_total().bytes, 0U);
}

TEST(Device, AnImpossibleRequestSaysHowMuchAndWhatToDo) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "a sanitizer ends the program instead";
  const Device device = Device::cpu();
  const Tensor held = Tensor::zeros(device, {250}, DType::kF32);
  constexpr std::size_t kExbibyte = std::size_t{1} << 60;
  const std::string message =
      message_of<Error>([&] { return Tensor::empty(device, {kExbibyte / 4}, DType::kF32); });
  EXPECT_THAT(message, HasSubstr("out of memory"));
  EXPECT_THAT(message, HasSubstr("1153 PB"));
  EXPECT_THAT(message, HasSubstr("1.00 kB in use (other 1.00 kB) and nothing cached"));
  EXPECT_THAT(message, Not(HasSubstr("--device-memory")));
  EXPECT_THAT(message, HasSubstr("--micro-batch"));
  EXPECT_EQ(device.memory().current().total(), 1000U);
  EXPECT_EQ(device.system_allocations(), 1U);
}

TEST(Device, ARefusalOfTheSystemSaysWhatTheLimitWouldAllow) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "a sanitizer ends the program instead";
  const Device device = Device::cpu();
  constexpr std::size_t kExbibyte = std::size_t{1} << 60;
  device.set_memory_limit(2 * kExbibyte);
  EXPECT_THAT(message_of<OutOfMemory>([&] { return device.allocate(kExbibyte, kGradients); }),
              AllOf(HasSubstr("the system refuses 1153 PB more for gradients"),
                    HasSubstr("--device-memory would allow 2306 PB")));
}

/// What a request for that many bytes is refused with.
std::string refusal(const Device& device, std::size_t bytes, MemoryCategory category = kOther) {
  return message_of<OutOfMemory>([&] { return device.allocate(bytes, category); });
}

TEST(DeviceMemoryLimit, RefusesWhatGoesAboveItAndSaysWhatIsInUse) {
  const Device device = Device::cpu();
  device.set_memory_limit(10'000);
  EXPECT_THAT(refusal(device, 10'001, kGradients),
              AllOf(HasSubstr("10.0 kB more for gradients do not fit into 10.0 kB"),
                    HasSubstr("0 B are in use (nothing)")));
  const Tensor weights = Tensor::zeros(device, {1000}, DType::kF32, kParameters);
  const Tensor gradients = Tensor::zeros(device, {125}, DType::kF64, kGradients);
  const std::string message = message_of<OutOfMemory>(
      [&] { return Tensor::empty(device, {2000}, DType::kF32, kActivations); });
  EXPECT_THAT(message, HasSubstr("8.00 kB more for activations do not fit into 10.0 kB"));
  EXPECT_THAT(message, HasSubstr("5.00 kB are in use (parameters 4.00 kB, gradients 1.00 kB)"));
  EXPECT_THAT(message, AllOf(HasSubstr("--micro-batch"), HasSubstr("--device-memory")));
}

TEST(DeviceMemoryLimit, ARefusedRequestLeavesNoTrace) {
  const Device device = Device::cpu();
  const Tensor held = Tensor::zeros(device, {10}, DType::kF64, kParameters);
  device.set_memory_limit(100);
  int changes = 0;
  device.set_memory_listener([&](const MemoryUsage&) { ++changes; });
  const std::size_t reserved = device.reserved_bytes();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(refusal(device, 21, kGradients), HasSubstr("21 B"));
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(device.memory().current()[kGradients], 0U);
  EXPECT_EQ(device.memory().current().total(), 80U);
  EXPECT_EQ(device.memory().peak_total().bytes, 80U);
  EXPECT_EQ(device.reserved_bytes(), reserved);
  EXPECT_EQ(device.system_allocations(), 1U);
  EXPECT_NO_THROW(static_cast<void>(Tensor::zeros(device, {5}, DType::kF32)));
}

TEST(DeviceMemoryLimit, BelowWhatIsInUseRefusesEverythingMore) {
  const Device device = Device::cpu();
  Tensor held = Tensor::zeros(device, {10}, DType::kF64, kParameters);
  device.set_memory_limit(50);
  EXPECT_THAT(refusal(device, 1), HasSubstr("do not fit into 50 B, of which 80 B are in use"));
  held.set_category(kGradients);
  EXPECT_EQ(device.memory().current()[kGradients], 80U) << "what is there stays";
  held = Tensor();
  EXPECT_NO_THROW(static_cast<void>(Tensor::zeros(device, {6}, DType::kF64)));
}

/// Makes, checks and frees tensors; returns how many held a value that another thread wrote.
int churn(const Device& device, int thread) {
  int wrong = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const Tensor t = Tensor::empty(device, {1 + i % 17}, DType::kF64, kActivations);
    t.fill(thread);
    t.set_category(kGradients);
    for (const double value : t.span<double>()) wrong += value == thread ? 0 : 1;
  }
  return wrong;
}

TEST(Device, ManyThreadsMayAllocateAtOnce) {
  constexpr int kThreads = 4;
  const Device device = Device::cpu();
  std::vector<int> wrong(kThreads, 0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { wrong[static_cast<std::size_t>(t)] = churn(device, t); });
    }
  }
  EXPECT_THAT(wrong, Each(0));
  EXPECT_EQ(device.memory().current().total(), 0U);
  EXPECT_GE(device.memory().peak_total().bytes, 17U * 8U);
  EXPECT_LE(device.memory().peak_total().bytes, kThreads * 17U * 8U);
}

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

namespace ultra::backend {
namespace {}  // namespace
}  // namespace ultra::backend
