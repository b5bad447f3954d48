#pragma once
/// @file
/// A file that is there whole or not at all.

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ultra {

/// @brief Writes to a new file beside PATH, `PATH.partial-...`, and moves it to PATH when all is
/// written.
///
/// The constructor opens that file, so that a path that cannot be written is an error before the
/// work, not after it. Without commit() the destructor removes it. A symbolic link stays one: its
/// target is replaced. Written to directly: character devices (/dev/null), pipes that somebody
/// reads, and what is open already (/dev/stdout).
class AtomicFile {
 public:
  /// @param path     where the file shall be.
  /// @param purpose  what messages call it, for example "metrics file (--metrics)".
  /// @throws FileError, without waiting, when the file cannot be made: no such folder, no
  /// permission, a folder, a disk, a socket, a pipe that nobody reads.
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
  void open_itself(std::filesystem::file_type type);
  void open_beside();
  void discard() const;
  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void refuse_to_write(const std::string& reason) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;  // path_ when that is written to directly
  std::string purpose_;
  std::ofstream stream_;
};

}  // namespace ultra
