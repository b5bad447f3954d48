#include "tests/support/files/own_disk.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <fstream>

namespace ultra::test {
namespace {

constexpr int kDone = 0;
constexpr int kNotAllowed = 77;

/// Gives the process mounts of its own; without root's rights it becomes root of a world of its own.
bool leave_the_others() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWNS) == 0) return true;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << fmt::format("0 {} 1", user);
  std::ofstream("/proc/self/gid_map") << fmt::format("0 {} 1", group);
  return getuid() == 0;
}

/// In the child: the mount ends with it.
bool mount_disk(const std::string& folder, std::size_t bytes, DiskState state) {
  if (!leave_the_others()) return false;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  const unsigned long flags = state == DiskState::kReadOnly ? MS_RDONLY : 0;
  return mount("tmpfs", folder.c_str(), "tmpfs", flags, fmt::format("size={}", bytes).c_str()) == 0;
}

/// The child must end here, whatever happens.
std::string answer_of(const std::function<std::string()>& fn) {
  try {
    return fn();
  } catch (const std::exception& error) {
    return fmt::format("unexpected: {}", error.what());
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> chunk;
  ssize_t count;
  while ((count = read(descriptor, chunk.data(), chunk.size())) > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

std::optional<std::string> with_own_disk(const std::string& folder, std::size_t bytes,
                                         DiskState state, const std::function<std::string()>& fn) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    if (!mount_disk(folder, bytes, state)) _exit(kNotAllowed);
    const std::string answer = answer_of(fn);
    const bool told = write(ends[1], answer.data(), answer.size()) >= 0;
    _exit(told ? kDone : 1);
  }
  close(ends[1]);
  const std::string answer = read_all(ends[0]);
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotAllowed) return std::nullopt;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kDone) << "status " << status;
  return answer;
}

}  // namespace ultra::test
