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
  if (fs::is_directory(path_)) {
    throw FileError(
        fmt::format("{} '{}' is a folder. Give the path of a file.", purpose_, path_.string()));
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
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

void AtomicFile::commit() {
  stream_.close();
  std::error_code error;
  if (!stream_.fail()) fs::rename(partial_, path_, error);
  if (stream_.fail() || error) {
    const std::string reason = error ? error.message() : "is the disk full?";
    fs::remove(partial_, error);
    throw FileError(
        fmt::format("{} '{}' could not be written: {}", purpose_, path_.string(), reason));
  }
}

}  // namespace ultra
