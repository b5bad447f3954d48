#pragma once
/// @file
/// Trainings that are killed at a random moment, again and again, and go on from what they have
/// saved.

#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "tests/chapters/04_zero/checkpoints/checkpoint_program.hpp"
#include "tests/chapters/04_zero/checkpoints/running_program.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief A training of 4 ranks that saves every step and goes on from the newest checkpoint.
class CheckpointKillTest : public CheckpointProgramTest {
 protected:
  /// Kills trainings until that many have died. One folder is used until its training is through.
  void kill_trainings(int kills) {
    const ProcessResult whole = run(kBase, layout_and_folder("measured"));
    expect_success(whole);
    expected_ = losses_of(kBase, kFourShards);

    int killed = 0;
    int trainings = 0;
    // A machine that is slow now and fast later could let every run end first: that ends too.
    for (int attempt = 0; killed < kills && attempt < 10 * kills; ++attempt) {
      const double seconds = random.uniform(0, whole.seconds);
      const std::string name = std::to_string(trainings);
      SCOPED_TRACE(fmt::format("kill {} in training {}, after {} s of {} s", killed + 1, name,
                               seconds, whole.seconds));
      if (dies_after(seconds, name)) {
        ++killed;
        expect_complete(name);
      } else {
        expect_through(name);
        ++trainings;
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(killed, 0);
    std::printf("%d kills in %d trainings; checkpoints looked at: %d\n", killed, trainings + 1,
                looked_at_);
    expect_through(std::to_string(trainings));
  }

 private:
  [[nodiscard]] Words layout_and_folder(const std::string& name) const {
    return joined(kFourShards,
                  {"--checkpoint", saved(name), "--resume", saved(name), "--save-every", "1"});
  }

  [[nodiscard]] bool dies_after(double seconds, const std::string& name) const {
    RunningProgram program(program_words(kBase, layout_and_folder(name)), disk.path("printed"));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const bool died = program.kill_now();
    if (died) return true;
    EXPECT_TRUE(std::filesystem::exists(saved_step(kSteps, name)))
        << read_file(disk.path("printed"));
    return false;
  }

  /// Every checkpoint that has appeared can be loaded, and has the losses up to its step.
  void expect_complete(const std::string& name) {
    if (!std::filesystem::exists(saved(name))) return;
    for (const std::string& checkpoint : names(name)) {
      if (checkpoint.starts_with('.')) continue;
      if (!complete_.insert(name + "/" + checkpoint).second) continue;
      SCOPED_TRACE(checkpoint);
      ++looked_at_;
      const std::size_t step = std::stoul(checkpoint.substr(std::string("step-").size()));
      EXPECT_EQ(losses_of(with(kBase, "--steps", std::to_string(step)),
                          {"--resume", saved(name) + "/" + checkpoint}),
                json(std::vector<json>(expected_.begin(),
                                       expected_.begin() + static_cast<std::ptrdiff_t>(step))))
          << "bitwise";
    }
  }

  /// Makes the steps that are left.
  void expect_through(const std::string& name) {
    EXPECT_EQ(losses_of(kBase, layout_and_folder(name)), expected_) << "bitwise";
    expect_complete(name);
    const Words all = names(name);
    EXPECT_EQ(all.size(), kSteps) << ::testing::PrintToString(all);
    EXPECT_EQ(all.front(), step_name(1)) << "nothing unfinished stays";
  }

  static constexpr std::size_t kSteps = 10;
  const Changes kBase = with(kSixSteps, "--steps", std::to_string(kSteps));
  json expected_;
  std::set<std::string> complete_;  // that have been looked at: nobody writes to them any more
  int looked_at_ = 0;
};

}  // namespace ultra::zero::test
