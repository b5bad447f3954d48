#pragma once
/// @file
/// Several runs that want to write to one folder of checkpoints.

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/chapters/04_zero/checkpoints/checkpoint_program.hpp"
#include "tests/chapters/04_zero/checkpoints/running_program.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief Trainings without an end that save every step, and what others may do beside them.
class CheckpointLockTest : public CheckpointProgramTest {
 protected:
  static constexpr const char* kNoEnd = "1000000";

  /// Flags that save every step to the folder.
  [[nodiscard]] Words saving() const {
    return {"--checkpoint", saved(), "--save-every", "1", "--keep", "3"};
  }

  /// The same, going on from what is there.
  [[nodiscard]] Words going_on() const { return joined(saving(), {"--resume", saved()}); }

  [[nodiscard]] std::size_t newest_step() const {
    std::size_t newest = 0;
    if (!std::filesystem::exists(saved())) return newest;
    for (const std::string& name : names()) {
      const std::string prefix = "step-";
      if (name.starts_with(prefix))
        newest = std::max(newest, std::stoul(name.substr(prefix.size())));
    }
    return newest;
  }

  void wait_for_step(std::size_t step) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (newest_step() < step) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no checkpoint of step " << step;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
};

}  // namespace ultra::zero::test
