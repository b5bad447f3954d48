#include "common/checkpoint/files/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/files/system_failure.hpp"

namespace ultra::checkpoint {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostHolderBytes = 300;

/// The words of this program's command line.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (words.ends_with('\0')) words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

std::string this_process() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC: {}", ::getpid(),
                     host.data(), fmt::gmtime(std::time(nullptr)), command_line())
      .substr(0, kMostHolderBytes);
}

/// Says in the file who has the lock. Only messages depend on it: a disk that is full does not
/// matter.
void sign(const Descriptor& file) {
  const std::string text = this_process();
  if (::ftruncate(file.value(), 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(file.value(), text.data(), text.size(), 0);
}

/// Whether a path still leads to an open file: a holder removes it at its end.
bool is_at(const fs::path& path, const Descriptor& file) {
  struct stat open;
  struct stat named;
  if (::fstat(file.value(), &open) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// The locked file; nothing when somebody else has the lock.
std::optional<Descriptor> try_to_lock(const fs::path& path) {
  constexpr mode_t kReadAndWriteForAll = 0666;  // less the user's umask
  for (;;) {
    Descriptor file(uninterrupted(
        [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kReadAndWriteForAll); }));
    if (file.value() < 0) fail_file(errno, path, "made");
    if (uninterrupted([&] { return ::flock(file.value(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      fail_file(errno, path, "locked");
    }
    if (is_at(path, file)) return file;
  }
}

/// Who has the lock, as it has said.
std::string holder_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string holder(kMostHolderBytes, '\0');
  file.read(holder.data(), static_cast<std::streamsize>(holder.size()));
  holder.resize(static_cast<std::size_t>(file.gcount()));
  return holder.empty() ? "it does not say which" : shown_text(holder, kMostHolderBytes);
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

Descriptor locked_file(const fs::path& folder, const fs::path& path,
                       std::chrono::milliseconds patience,
                       const std::function<void(const std::string&)>& say) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  const auto end = Clock::now() + patience;
  for (bool said = false;; said = true) {
    if (auto file = try_to_lock(path)) return std::move(*file);
    if (Clock::now() >= end) {
      throw FileError(fmt::format(
          "checkpoint folder '{}' belongs to another run, which has not ended within {} s: {}. "
          "Wait until it has, or stop it, or give --checkpoint another folder.",
          folder.string(), seconds(patience), holder_of(path)));
    }
    if (!said && say) {
      say(fmt::format("Waits for another run, {} s at most: checkpoint folder '{}' is its: {}",
                      seconds(patience), folder.string(), holder_of(path)));
    }
    throw_if_interrupted();
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, std::chrono::milliseconds patience,
                       const std::function<void(const std::string&)>& say)
    : path_(folder / ".lock"), file_(locked_file(folder, path_, patience, say)) {
  sign(file_);
}

FolderLock::~FolderLock() {
  ::unlink(path_.c_str());  // while it is locked: whoever waits for this file looks for a new one
}

}  // namespace ultra::checkpoint
