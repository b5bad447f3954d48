#pragma once
/// @file
/// A file that appears whole or not at all.

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ultra {

/// @brief Keeps what is written in memory; commit() puts all of it into a new file beside PATH,
/// `PATH.partial-...`, and moves that to PATH.
///
/// The constructor makes and removes such a file, so that a path that cannot be written is an error
/// before the work, not after it. Until commit() nothing lies beside PATH, however the program ends.
/// A symbolic link stays one: its target is replaced. Written to directly: character devices
/// (/dev/null), pipes that somebody reads, and what is open already (/dev/stdout).
class AtomicFile {
 public:
  /// @param path     where the file is to be.
  /// @param purpose  what messages call it, for example "metrics file (--metrics)".
  /// @throws FileError, without waiting, when the file cannot be made: no such folder, no
  /// permission, a folder, a disk, a socket, a pipe that nobody reads.
  AtomicFile(std::filesystem::path path, std::string_view purpose);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() = default;

  /// @brief Appends text.
  void write(std::string_view text) { text_ += text; }

  /// @brief Makes the file, replacing what was there.
  /// @throws FileError when the disk is full or the file cannot be moved; nothing is left behind.
  void commit();

 private:
  void open_itself(std::filesystem::file_type type);
  void expect_place();
  void write_beside();
  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void refuse_unwritten(std::string_view reason) const;
  [[noreturn]] void refuse_to_write(const std::string& reason) const;

  std::filesystem::path path_;
  std::string purpose_;
  std::string text_;
  std::ofstream itself_;  // open when the path is written to directly
};

}  // namespace ultra
