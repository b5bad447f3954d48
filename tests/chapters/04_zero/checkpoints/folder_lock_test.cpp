#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/files/descriptor.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;

constexpr auto kAtOnce = std::chrono::milliseconds(0);
constexpr auto kLong = std::chrono::seconds(60);

class FolderLockTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string refused() const {
    return message_of<FileError>([&] { const FolderLock second(path, kAtOnce); });
  }

  /// A child that has the lock until it is killed.
  [[nodiscard]] pid_t start_holder() const {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const FolderLock lock(path, kAtOnce);
      static_cast<void>(write(ready[1], "x", 1));
      for (;;) pause();
    }
    char signal = 0;
    EXPECT_EQ(read(ready[0], &signal, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  }

  static void kill_and_wait(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }

  test::TemporaryFolder folder;
  fs::path path = folder.path();
};

TEST_F(FolderLockTest, HasOneHolderAtATime) {
  {
    const FolderLock first(path, kAtOnce);
    EXPECT_THAT(refused(), HasSubstr("belongs to another run"));
    EXPECT_THAT(refused(), HasSubstr("belongs to another run")) << "a refusal changes nothing";
  }
  EXPECT_THAT(folder.names(), IsEmpty()) << "nothing stays";
  EXPECT_NO_THROW(FolderLock(path, kAtOnce));
}

TEST_F(FolderLockTest, AFolderOfTwoNamesHasOneLock) {
  fs::create_directory(path / "a");
  fs::create_directory_symlink(path / "a", path / "b");
  const FolderLock first(path / "a", kAtOnce);
  path /= "b";
  EXPECT_THAT(refused(), HasSubstr("belongs to another run"));
}

TEST_F(FolderLockTest, DiesWithItsHolder) {
  const pid_t holder = start_holder();
  EXPECT_THAT(refused(), HasSubstr("belongs to another run"));
  kill_and_wait(holder);
  EXPECT_THAT(folder.names(), ElementsAre(".lock")) << "what a holder leaves that is killed";
  const FolderLock next(path, kAtOnce);
  EXPECT_THAT(refused(), HasSubstr(fmt::format("process {} on", getpid())))
      << "the file names the new holder";
}

/// Before the wait: the holder ends only once it has been named.
TEST_F(FolderLockTest, SaysOnceAndAtOnceForWhomItWaits) {
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  { const FolderLock free(path, kLong, say); }
  EXPECT_THAT(said, IsEmpty()) << "nobody has the lock";
  const pid_t holder = start_holder();
  const FolderLock lock(path, kLong, [&](const std::string& text) {
    say(text);
    kill_and_wait(holder);
  });
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said.front(),
              AllOf(HasSubstr("Waits for another run, 60 s at most"), HasSubstr(path.string()),
                    HasSubstr(fmt::format("process {} on ", holder))));
}

/// A child that outlives the holder must not keep the lock.
TEST_F(FolderLockTest, ChildrenDoNotInheritIt) {
  const FolderLock lock(path, kAtOnce);
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry, error) != path / ".lock") continue;
    ++found;
    const int flags = fcntl(std::stoi(entry.path().filename().string()), F_GETFD);
    EXPECT_NE(flags & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 1);
}

/// What is in the file may be of any program.
TEST_F(FolderLockTest, WhatTheFileSaysIsShownEscapedAndShort) {
  const checkpoint::Descriptor other(
      open((path / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(other.value(), LOCK_EX), 0);
  EXPECT_THAT(refused(), HasSubstr("it does not say which"));
  std::ofstream(path / ".lock") << "\x1b[31mred\n" << std::string(100'000, 'x');
  EXPECT_THAT(refused(), HasSubstr("\\u001b[31mred\\n"));
  EXPECT_LT(refused().size(), 1000U);
}

TEST_F(FolderLockTest, AFolderThatIsMissingOrMustNotBeWrittenTo) {
  path /= "missing";
  EXPECT_THAT(refused(), AllOf(HasSubstr(path.string()), HasSubstr("No such file")));
  path = folder.path("a");
  fs::create_directory(path);
  ASSERT_EQ(chmod(path.c_str(), 0555), 0);
  const test::WithoutPrivileges user;
  EXPECT_THAT(refused(), AllOf(HasSubstr(path.string()), HasSubstr("Permission denied"),
                               HasSubstr("permissions")));
}

/// One takes the file away at its end while others open it.
TEST_F(FolderLockTest, ManyInTurn) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 50;
  std::atomic<int> holders = 0;
  std::atomic<int> turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int mine = 0; mine < kTurns;) {
        try {
          const FolderLock lock(path, kAtOnce);
          EXPECT_EQ(++holders, 1);
          std::this_thread::sleep_for(std::chrono::microseconds(200));  // for others to come
          ++turns;
          ++mine;
          --holders;
        } catch (const FileError&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace ultra::zero
