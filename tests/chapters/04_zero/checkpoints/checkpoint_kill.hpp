#pragma once
/// @file
/// Trainings that are killed at a random moment, again and again, and go on from what they have
/// saved.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/chapters/04_zero/checkpoints/checkpoint_program.hpp"

namespace ultra::zero::test {

/// @brief A program that runs beside the test.
class RunningProgram {
 public:
  /// @brief Starts an executable of this build; what it prints goes to a file.
  RunningProgram(const std::string& name, const Words& arguments, const std::string& output) {
    Words words = {ultra::test::program_path(name)};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("no process could be started");
    if (child_ > 0) return;
    const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (dup2(out, 1) == 1 && dup2(out, 2) == 2) execv(argv[0], argv.data());
    _exit(127);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  ~RunningProgram() {
    if (child_ > 0) static_cast<void>(kill_now());
  }

  /// @brief Ends it at once, wherever it is; whether it was still there.
  [[nodiscard]] bool kill_now() {
    ::kill(child_, SIGKILL);
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    if (WIFSIGNALED(status)) return true;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "it has ended by itself, with an error";
    return false;
  }

 private:
  pid_t child_ = 0;
};

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
    RunningProgram program("04_zero", ultra::test::flags(kBase, layout_and_folder(name)),
                           disk.path("printed"));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const bool died = program.kill_now();
    if (died) return true;
    EXPECT_TRUE(std::filesystem::exists(saved_step(kSteps, name)))
        << ultra::test::read_file(disk.path("printed"));
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
