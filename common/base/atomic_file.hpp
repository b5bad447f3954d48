#pragma once
/// @file
/// A file that is there whole or not at all.

#include <filesystem>
#include <fstream>
#include <string_view>

namespace ultra {

/// @brief Writes to `PATH.partial` and moves it to PATH when all is written.
///
/// The constructor opens the partial file, so that a path that cannot be written is an error before
/// the work, not after it. Without commit() the destructor removes the partial file. A symbolic
/// link stays one: its target is replaced. A device or a pipe (/dev/stdout) is written to directly.
class AtomicFile {
 public:
  /// @param path     where the file shall be.
  /// @param purpose  what messages call it, for example "metrics file (--metrics)".
  /// @throws FileError when the file cannot be made.
  AtomicFile(std::filesystem::path path, std::string_view purpose);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// @brief Appends text.
  void write(std::string_view text) { stream_ << text; }

  /// @brief Moves the file to its place, replacing what was there.
  /// @throws FileError when the disk is full or the file cannot be moved; nothing is left behind.
  void commit();

 private:
  void discard() const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::string purpose_;
  std::ofstream stream_;
};

}  // namespace ultra
