#pragma once
/// @file
/// CancellableFiles: a file system in which long writes can be told to stop.

#include <atomic>

#include "common/checkpoint/files/file_layer.hpp"

namespace ultra::checkpoint {

/// Bytes between two checks whether long work must stop: any disk needs a fraction of a second for
/// them.
inline constexpr std::size_t kCancellablePiece = std::size_t{16} << 20U;

/// @brief Another file system's files, written in pieces that are brought to the disk one by one, so
/// that neither a write nor the sync() after it takes long.
class CancellableFiles final : public FileLayer {
 public:
  /// @param files      the other; outlives this one, like `cancelled`.
  /// @param cancelled  from when it is true on, writes throw Interrupted.
  CancellableFiles(FileLayer& files, const std::atomic<bool>& cancelled)
      : files_(files), cancelled_(cancelled) {}

  [[nodiscard]] std::unique_ptr<OutputFile> create(const std::filesystem::path& path) override;
  [[nodiscard]] std::unique_ptr<OutputFile> open_for_writing(
      const std::filesystem::path& path) override;
  [[nodiscard]] std::unique_ptr<InputFile> open_for_reading(
      const std::filesystem::path& path) override {
    return files_.open_for_reading(path);
  }
  void make_folder(const std::filesystem::path& path) override { files_.make_folder(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    files_.rename(from, to);
  }
  void sync_folder(const std::filesystem::path& path) override { files_.sync_folder(path); }
  void remove_all(const std::filesystem::path& path) override { files_.remove_all(path); }
  [[nodiscard]] std::vector<std::string> list(const std::filesystem::path& folder) override {
    return files_.list(folder);
  }
  [[nodiscard]] bool exists(const std::filesystem::path& path) override {
    return files_.exists(path);
  }

 private:
  FileLayer& files_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace ultra::checkpoint
