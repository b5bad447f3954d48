#pragma once
/// @file
/// ScratchFile: a file of fixed length without a name, which nobody has to clean up.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/base/errors.hpp"

namespace ultra::storage {

/// @brief A file that exists as long as this object, for reading and writing at offsets.
///
/// It has no name in its folder (O_TMPFILE; where a file system has none, it is removed right after it
/// was made), so nothing is left behind, not even after SIGKILL. Its space on the disk is kept from the
/// start, so that a full disk is found before the work and not after half of it.
class ScratchFile {
 public:
  /// @brief Makes a file of `bytes` zeros in a folder that is there.
  /// @throws FileError when the folder is missing, cannot be written to, or its disk is too full.
  ScratchFile(const std::filesystem::path& folder, std::uint64_t bytes);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  /// @brief For system calls.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// @brief Its length when it was made.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// @brief The error of a system call on it.
  /// @param error  its errno.
  /// @param tried  what it cannot be: "read", "written".
  [[nodiscard]] FileError failure(int error, std::string_view tried) const;

  /// @brief The error of a read that the file's end stopped.
  /// @param found  where the file ends.
  [[nodiscard]] FileError end_of_file(std::uint64_t found, std::uint64_t offset,
                                      std::size_t expected) const;

 private:
  void take_space() const;

  std::string name_;  // for messages
  std::uint64_t size_;
  int descriptor_;
};

}  // namespace ultra::storage
