#pragma once
/// @file
/// What tests of communication share: their headers, runs whose options come first, and tensors.

#include <regex>
#include <tuple>

#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/common/comm/backend/nccl/fake_library.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/ranks/star_algorithms.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra {

using std::chrono::milliseconds;
using test::is_a;

/// @brief Where the tensors of the running test are; its fixture says so.
inline DeviceKind tests_device_kind = DeviceKind::kCpu;

/// @brief The calling rank's device, within ranks_with and fates_with; the CPU's elsewhere.
inline thread_local std::optional<Device> ranks_device;

/// @brief Where the calling rank's tensors are.
[[nodiscard]] inline Device own_device() { return ranks_device.value_or(Device::cpu()); }

/// @brief `fn` with a device of its own for each rank.
[[nodiscard]] inline std::function<void(Communicator&)> on_devices(
    const std::function<void(Communicator&)>& fn) {
  if (!has_streams(tests_device_kind)) return fn;
  return [fn](Communicator& world) {
    ranks_device = Device::create(tests_device_kind, world.rank());
    fn(world);
  };
}

/// @brief run_ranks with these options.
inline void ranks_with(const RankOptions& options, int size,
                       const std::function<void(Communicator&)>& fn) {
  run_ranks(size, on_devices(fn), options);
  ranks_device.reset();
}

/// @brief What the ranks of a run with these options ended with.
[[nodiscard]] inline test::Fates fates_with(const RankOptions& options, int size,
                                            const std::function<void(Communicator&)>& fn) {
  const test::Fates fates = test::fates_of(size, on_devices(fn), options);
  ranks_device.reset();
  return fates;
}

/// @brief The plain algorithms instead of the platform's own.
[[nodiscard]] inline RankOptions star_options() {
  RankOptions options;
  options.algorithms = std::make_shared<const test::StarAlgorithms>();
  return options;
}

/// @brief `count` elements of one value.
[[nodiscard]] inline Tensor filled(std::size_t count, double value, DType dtype = DType::kF32) {
  return test::filled(own_device(), {count}, dtype, value);
}

/// @brief A fixture whose tests run with the options of its parameter: "native" is the platform's
/// own collectives, "schedules" the plain ones, "unchecked" those without a roll call; each on the
/// host, and "_emulated" on an emulated device; "nccl" is a library in NCCL's place.
class OptionsRanks : public test::RandomTest, public ::testing::WithParamInterface<std::string> {
 protected:
  explicit OptionsRanks(std::chrono::milliseconds timeout) {
    options.timeout = timeout;
    const std::string way = GetParam().substr(0, GetParam().find('_'));
    if (way == "nccl") {
      options.nccl_library = test::fake_nccl_path();
    } else if (way != "native") {
      options.algorithms = std::make_shared<test::StarAlgorithms>();
    }
    if (way == "unchecked") options.checking = Checking::kOff;
    if (way != GetParam()) tests_device_kind = DeviceKind::kEmulated;
  }
  OptionsRanks(const OptionsRanks&) = delete;
  OptionsRanks& operator=(const OptionsRanks&) = delete;
  ~OptionsRanks() override { tests_device_kind = DeviceKind::kCpu; }

  void SetUp() override {
    if (!options.nccl_library.empty() && launched_world_size()) {
      GTEST_SKIP() << "the library in NCCL's place works within one process";
    }
    if (GetParam() == "unchecked_emulated" && launched_world_size()) {
      GTEST_SKIP() << "a device's messages are staged alike with and without a roll call";
    }
  }

  RankOptions options;
};

/// @brief The parameters of OptionsRanks, and their names.
[[nodiscard]] inline auto backends() {
  return ::testing::Values("native", "schedules", "unchecked", "native_emulated",
                           "schedules_emulated", "unchecked_emulated", "nccl_emulated");
}
/// @brief Those on an emulated device.
[[nodiscard]] inline auto emulated_backends() {
  return ::testing::Values("native_emulated", "schedules_emulated", "unchecked_emulated",
                           "nccl_emulated");
}
[[nodiscard]] inline std::string backend_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

/// @brief A fixture whose tests run on the host's memory and on an emulated device's.
class DeviceRanks : public test::RandomTest, public ::testing::WithParamInterface<DeviceKind> {
 protected:
  DeviceRanks() { tests_device_kind = GetParam(); }
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;
  ~DeviceRanks() override { tests_device_kind = DeviceKind::kCpu; }
};

/// @brief The parameters of DeviceRanks, and their names.
[[nodiscard]] inline auto devices() {
  return ::testing::Values(DeviceKind::kCpu, DeviceKind::kEmulated);
}
[[nodiscard]] inline std::string device_name(const ::testing::TestParamInfo<DeviceKind>& info) {
  return std::string(to_string(info.param));
}

/// @brief A message as the library words it for tensors of the running test: "24 f32 on emulated".
[[nodiscard]] inline std::string worded(const std::string& message) {
  if (!has_streams(tests_device_kind)) return message;
  const std::string on = fmt::format("$& on {}", to_string(tests_device_kind));
  return std::regex_replace(message, std::regex("[0-9]+ f(32|64)"), on);
}

/// @brief A fixture whose tests run with a progress thread and without, each on the host's memory and on
/// an emulated device's.
class ProgressRanks : public test::RandomTest,
                      public ::testing::WithParamInterface<std::tuple<Progress, DeviceKind>> {
 protected:
  ProgressRanks() {
    options.timeout = std::chrono::seconds(100);
    options.progress = std::get<Progress>(GetParam());
    tests_device_kind = std::get<DeviceKind>(GetParam());
  }
  ProgressRanks(const ProgressRanks&) = delete;
  ProgressRanks& operator=(const ProgressRanks&) = delete;
  ~ProgressRanks() override { tests_device_kind = DeviceKind::kCpu; }

  RankOptions options;

 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

/// @brief The parameters of ProgressRanks, and their names.
[[nodiscard]] inline auto kinds_of_progress() {
  return ::testing::Combine(::testing::Values(Progress::kThread, Progress::kOnCall), devices());
}
[[nodiscard]] inline std::string progress_name(
    const ::testing::TestParamInfo<std::tuple<Progress, DeviceKind>>& info) {
  const auto& [progress, device] = info.param;
  return fmt::format("{}_{}", progress == Progress::kThread ? "Thread" : "OnCall",
                     to_string(device));
}

}  // namespace ultra
