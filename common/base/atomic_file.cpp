#include "common/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/same_file.hpp"

namespace ultra {
namespace {

namespace fs = std::filesystem;

/// Whether a path is a descriptor of this process: /dev/stdout, /dev/fd/63. What is behind it is
/// open already, and whoever opened it wants it in place.
bool is_descriptor(fs::path path) {
  std::error_code unknown;
  while (true) {
    if (fs::equivalent(path.parent_path(), "/proc/self/fd", unknown)) return true;
    if (!fs::is_symlink(path, unknown)) return false;
    const fs::path target = path.parent_path() / fs::read_symlink(path, unknown);
    if (target == path) return false;
    path = target;
  }
}

bool may_write(const fs::path& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

/// Makes a file of a new name beside `path`.
/// @return its path; empty, with errno set, when none can be made.
fs::path make_beside(const fs::path& path) {
  constexpr std::size_t kMostOfName = 200;  // of the 255 bytes that a name may have
  const std::string name = path.filename().string().substr(0, kMostOfName);
  std::random_device random;
  while (true) {
    fs::path made = path;
    made.replace_filename(fmt::format("{}.partial-{:08x}", name, random()));
    if (std::FILE* file = std::fopen(made.c_str(), "wbx")) {
      std::fclose(file);
      return made;
    }
    if (errno != EEXIST) return {};
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, std::string_view purpose)
    : path_(std::move(path)), purpose_(purpose) {
  std::error_code error;
  const fs::file_type type = fs::status(path_, error).type();
  if (type == fs::file_type::none) refuse_to_write(error.message());
  if (type == fs::file_type::directory) refuse("is a folder. Give the path of a file.");
  const bool in_place = type != fs::file_type::regular && type != fs::file_type::not_found;
  if (in_place || is_descriptor(path_)) {
    open_itself(type);
  } else {
    expect_place();
  }
}

void AtomicFile::open_itself(fs::file_type type) {
  if (type == fs::file_type::block) refuse("is a disk. Give the path of a file.");
  if (type == fs::file_type::socket) refuse("is a socket. Give the path of a file.");
  // A pipe without a reader would keep open() waiting; its reader must not see an end before ours.
  const int opened = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (opened < 0 && errno == ENXIO && type == fs::file_type::fifo) {
    refuse("is a pipe that nobody reads. Start its reader first, or give the path of a file.");
  }
  if (opened < 0) refuse_to_write(std::strerror(errno));
  itself_.open(path_, std::ios::binary | std::ios::app);
  const int reason = errno;
  ::close(opened);
  if (!itself_) refuse_to_write(std::strerror(reason));
}

/// Leaves nothing there: a program that is killed could not remove it.
void AtomicFile::expect_place() {
  path_ = follow_links(path_);
  std::error_code unknown;
  if (fs::exists(path_, unknown) && !may_write(path_)) refuse_to_write(std::strerror(errno));
  const fs::path made = make_beside(path_);
  if (made.empty()) refuse_to_write(std::strerror(errno));
  fs::remove(made, unknown);
}

void AtomicFile::write_beside() {
  const fs::path partial = make_beside(path_);
  if (partial.empty()) refuse_to_write(std::strerror(errno));
  std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
  stream << text_;
  stream.close();
  std::error_code error;
  if (!stream.fail()) fs::rename(partial, path_, error);
  if (!stream.fail() && !error) return;
  std::error_code ignored;
  fs::remove(partial, ignored);
  refuse_unwritten(error ? error.message() : "is the disk full?");
}

void AtomicFile::commit() {
  if (!itself_.is_open()) return write_beside();
  itself_ << text_;
  itself_.close();
  if (itself_.fail()) refuse_unwritten("is the disk full?");
}

void AtomicFile::refuse(std::string_view what) const {
  throw FileError(fmt::format("{} '{}' {}", purpose_, path_.string(), what));
}

void AtomicFile::refuse_unwritten(std::string_view reason) const {
  refuse(fmt::format("could not be written: {}", reason));
}

void AtomicFile::refuse_to_write(const std::string& reason) const {
  refuse(fmt::format(
      "cannot be written: {}. Give a path in a folder that exists and that you may write to.",
      reason));
}

}  // namespace ultra
