#include "common/base/atomic_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra {
namespace fs = std::filesystem;

AtomicFile::AtomicFile(fs::path path, std::string_view purpose)
    : path_(std::move(path)), partial_(path_.string() + ".partial"), purpose_(purpose) {
  std::error_code unknown;  // a path that cannot be looked at cannot be opened either: see below
  const fs::file_status status = fs::status(path_, unknown);
  if (fs::is_directory(status)) {
    throw FileError(
        fmt::format("{} '{}' is a folder. Give the path of a file.", purpose_, path_.string()));
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    partial_ = path_;
  } else if (fs::is_symlink(path_, unknown) && fs::exists(status)) {
    path_ = fs::canonical(path_);
    partial_ = path_.string() + ".partial";
  }
  stream_.open(partial_, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    throw FileError(
        fmt::format("{} '{}' cannot be written: {}. Give a path in a folder that "
                    "exists and that you may write to.",
                    purpose_, path_.string(), std::strerror(errno)));
  }
}

AtomicFile::~AtomicFile() {
  if (!stream_.is_open()) return;
  stream_.close();
  discard();
}

void AtomicFile::discard() const {
  std::error_code ignored;
  if (partial_ != path_) fs::remove(partial_, ignored);
}

void AtomicFile::commit() {
  stream_.close();
  std::error_code error;
  if (!stream_.fail() && partial_ != path_) fs::rename(partial_, path_, error);
  if (stream_.fail() || error) {
    const std::string reason = error ? error.message() : "is the disk full?";
    discard();
    throw FileError(
        fmt::format("{} '{}' could not be written: {}", purpose_, path_.string(), reason));
  }
}

}  // namespace ultra
