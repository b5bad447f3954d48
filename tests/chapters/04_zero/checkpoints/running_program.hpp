#pragma once
/// @file
/// A program that runs beside the test, which stops it, kills it or waits for it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/programs/program.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief The words that start 04_zero with the flags of a short run, changed and extended.
inline Words program_words(const Changes& changes, const Words& more) {
  return joined({program_path("04_zero")}, flags(changes, more));
}

/// @brief A program that runs beside the test.
class RunningProgram {
 public:
  /// @brief Starts a command; what it prints goes to a file.
  /// @param words  the program's path and its arguments.
  RunningProgram(Words words, const std::string& output) {
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

  /// @brief The number of its process.
  [[nodiscard]] pid_t process() const { return child_; }

  /// @brief Stops it and returns when all of its threads have: nothing happens until go_on().
  void stop() const {
    ::kill(child_, SIGSTOP);
    int status = 0;
    while (waitpid(child_, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
  }
  void go_on() const { ::kill(child_, SIGCONT); }

  /// @brief Waits for its end; its exit code.
  [[nodiscard]] int wait() {
    const int status = wait_for_status();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// @brief Ends it at once, wherever it is; whether it was still there.
  [[nodiscard]] bool kill_now() {
    ::kill(child_, SIGKILL);
    const int status = wait_for_status();
    if (WIFSIGNALED(status)) return true;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "it has ended by itself, with an error";
    return false;
  }

 private:
  int wait_for_status() {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    return status;
  }

  pid_t child_ = 0;
};

}  // namespace ultra::zero::test
