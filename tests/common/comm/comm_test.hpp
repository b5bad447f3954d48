#pragma once
/// @file
/// What tests of communication share: their headers, runs whose options come first, and tensors.

#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/rank_fates.hpp"
#include "tests/support/star_algorithms.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra {

using std::chrono::milliseconds;
using test::is_a;

/// @brief run_ranks with these options.
inline void ranks_with(const RankOptions& options, int size,
                       const std::function<void(Communicator&)>& fn) {
  run_ranks(size, fn, options);
}

/// @brief What the ranks of a run with these options ended with.
[[nodiscard]] inline test::Fates fates_with(const RankOptions& options, int size,
                                            const std::function<void(Communicator&)>& fn) {
  return test::fates_of(size, fn, options);
}

/// @brief The plain algorithms instead of the platform's own.
[[nodiscard]] inline RankOptions star_options() {
  RankOptions options;
  options.algorithms = std::make_shared<const test::StarAlgorithms>();
  return options;
}

/// @brief `count` elements of one value.
[[nodiscard]] inline Tensor filled(std::size_t count, double value, DType dtype = DType::kF32) {
  return test::filled(Device::cpu(), {count}, dtype, value);
}

/// @brief A fixture whose tests run with the options of its parameter: "native" is the platform's
/// own collectives, "schedules" the plain ones, "unchecked" those without a roll call.
class OptionsRanks : public test::RandomTest, public ::testing::WithParamInterface<std::string> {
 protected:
  explicit OptionsRanks(std::chrono::milliseconds timeout) {
    options.timeout = timeout;
    if (GetParam() != "native") options.algorithms = std::make_shared<test::StarAlgorithms>();
    if (GetParam() == "unchecked") options.checking = Checking::kOff;
  }

  RankOptions options;
};

/// @brief The parameters of OptionsRanks, and their names.
[[nodiscard]] inline auto backends() {
  return ::testing::Values("native", "schedules", "unchecked");
}
[[nodiscard]] inline std::string backend_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

/// @brief A fixture whose tests run with a progress thread and without.
class ProgressRanks : public test::RandomTest, public ::testing::WithParamInterface<Progress> {
 protected:
  ProgressRanks() {
    options.timeout = std::chrono::seconds(100);
    options.progress = GetParam();
  }

  RankOptions options;

 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

/// @brief The parameters of ProgressRanks, and their names.
[[nodiscard]] inline auto kinds_of_progress() {
  return ::testing::Values(Progress::kThread, Progress::kOnCall);
}
[[nodiscard]] inline std::string progress_name(const ::testing::TestParamInfo<Progress>& info) {
  return info.param == Progress::kThread ? "Thread" : "OnCall";
}

}  // namespace ultra
