#pragma once
/// @file
/// FileLayer: what a checkpoint needs of the file system, and the seam where tests let it fail.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// @brief Checkpoints: files in the safetensors format, and the file system below them.
namespace ultra::checkpoint {

/// @brief A file open for writing at any place of it.
///
/// All members throw FileError with the path and the system's reason. The destructor closes and
/// reports no error: what was written counts only after sync() and close().
class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  virtual ~OutputFile() = default;

  /// @brief Writes all bytes, the first of them at `offset` of the file; the file grows as needed.
  ///
  /// Several ranks may write to one file, each through an OutputFile of its own, as long as their
  /// parts do not overlap.
  virtual void write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;

  /// @brief Makes the file this long; what is new reads as zeros and has its place on the disk.
  /// @throws FileError when the disk is too full: before the work, not after half of it.
  virtual void resize(std::uint64_t bytes) = 0;

  /// @brief Returns when the content survives a power failure. The file's name in its folder is the
  /// folder's content: FileLayer::sync_folder.
  virtual void sync() = 0;

  /// @brief Ends the work on the file; a second call does nothing.
  virtual void close() = 0;
};

/// @brief A regular file open for reading at any place of it, by several threads at once.
class InputFile {
 public:
  InputFile() = default;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  virtual ~InputFile() = default;

  /// @brief Fills all of `out` with the bytes from `offset` on.
  /// @throws FileError when the file cannot be read or ends before.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// @brief Bytes of the file when it was opened.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

/// @brief The file system as checkpoints use it. All members may be called from several threads,
/// and throw FileError with the path, what was tried and the system's reason, in one line.
class FileLayer {
 public:
  FileLayer() = default;
  FileLayer(const FileLayer&) = delete;
  FileLayer& operator=(const FileLayer&) = delete;
  virtual ~FileLayer() = default;

  /// @brief Makes a file, or empties the one that is there, for writing.
  [[nodiscard]] virtual std::unique_ptr<OutputFile> create(const std::filesystem::path& path) = 0;

  /// @brief Opens a file that is there for writing and leaves its content.
  [[nodiscard]] virtual std::unique_ptr<OutputFile> open_for_writing(
      const std::filesystem::path& path) = 0;

  /// @brief Opens a regular file for reading.
  [[nodiscard]] virtual std::unique_ptr<InputFile> open_for_reading(
      const std::filesystem::path& path) = 0;

  /// @brief Makes a folder and those on the way to it; one that is there already is not an error.
  virtual void make_folder(const std::filesystem::path& path) = 0;

  /// @brief Moves a file or a folder within one file system, in one step: others see the old name or
  /// the new one. Replaces a file, or a folder that is empty.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;

  /// @brief Returns when the names in a folder survive a power failure.
  virtual void sync_folder(const std::filesystem::path& path) = 0;

  /// @brief Removes a file, or a folder with all it holds; a path that is not there is not an error.
  virtual void remove_all(const std::filesystem::path& path) = 0;

  /// @brief The names of what a folder holds, sorted.
  [[nodiscard]] virtual std::vector<std::string> list(const std::filesystem::path& folder) = 0;

  /// @brief Whether a file or a folder of this name is there.
  [[nodiscard]] virtual bool exists(const std::filesystem::path& path) = 0;
};

/// @brief The system's files. Has no state: every call returns the same object.
[[nodiscard]] FileLayer& posix_files();

/// @brief How far a transfer came.
struct TransferResult {
  std::size_t done = 0;  ///< bytes moved
  int error = 0;         ///< errno of the call that failed; 0 when none did
};

/// @brief Repeats a read or a write until all is moved, an error comes, or nothing more does.
///
/// One call of pread or pwrite moves at most 2 GB, and fewer when a disk is nearly full; a signal
/// interrupts it (EINTR), and it is called again.
/// @param bytes  how many to move.
/// @param once   moves up to `left` bytes that follow the first `done`; returns their number, 0 at
///               the end of the file, or -1 and sets errno.
[[nodiscard]] TransferResult transfer_all(
    std::size_t bytes, const std::function<ssize_t(std::size_t done, std::size_t left)>& once);

}  // namespace ultra::checkpoint
