#pragma once
/// @file
/// CheckpointWriter: writes checkpoints while the training goes on; CancellableFiles: a file system in which long
/// writes can be told to stop.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"
#include "common/checkpoint/files/file_layer.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::zero {

/// Bytes between two checks whether long work must stop: any disk needs a fraction of a second for
/// them.
inline constexpr std::size_t kCancellablePiece = std::size_t{16} << 20U;

/// @brief Another file system's files, written in pieces that are brought to the disk one by one, so
/// that neither a write nor the sync() after it takes long.
class CancellableFiles final : public checkpoint::FileLayer {
 public:
  /// @param files      the other; outlives this one, like `cancelled`.
  /// @param cancelled  from when it is true on, writes throw Interrupted.
  CancellableFiles(checkpoint::FileLayer& files, const std::atomic<bool>& cancelled)
      : files_(files), cancelled_(cancelled) {}

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> create(
      const std::filesystem::path& path) override;
  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> open_for_writing(
      const std::filesystem::path& path) override;
  [[nodiscard]] std::unique_ptr<checkpoint::InputFile> open_for_reading(
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
  checkpoint::FileLayer& files_;
  const std::atomic<bool>& cancelled_;
};

/// @brief Writes one checkpoint after the other. The training waits until its state has been copied in
/// memory; then a thread of each rank writes the copy, and when all ranks have, rank 0 makes the
/// checkpoint visible.
///
/// A failure is found by whoever calls next, on all ranks alike; checkpoints that are complete stay.
/// All members are collective and called by each rank's own thread.
class CheckpointWriter {
 public:
  /// @brief Prepares the folder.
  /// @param folder  of the checkpoints; nobody else writes to it (FolderLock).
  /// @param keep    checkpoints that stay; 0 keeps all.
  /// @throws FileError, on all ranks, when the folder cannot be written to.
  CheckpointWriter(checkpoint::FileLayer& files, const std::filesystem::path& folder,
                   std::size_t keep, Communicator world);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Ends the writing; an incomplete checkpoint is removed.
  ~CheckpointWriter();

  /// @brief Begins to write a checkpoint; waits for the one under way first.
  /// @throws FileError, on all ranks, when one of them could not write.
  void begin(const TrainingState& state, const TrainingRecord& record,
             const Companions& companions = {});

  /// @brief Makes the checkpoint under way complete if all ranks have written their parts.
  /// @throws FileError, on all ranks, when one of them could not write.
  /// Cost: an all-reduce of one number while a checkpoint is under way; else nothing.
  void poll();

  /// @brief Returns when no checkpoint is under way.
  /// @throws FileError, on all ranks, when one of them could not write.
  void finish();

 private:
  /// Where the checkpoint under way is.
  [[nodiscard]] std::filesystem::path staging() const { return folder_.staging(*step_, run_); }
  void write(const PendingFiles& pending);
  void write_file(const std::filesystem::path& file, std::span<const PendingPart> parts);
  [[nodiscard]] std::uint32_t checksum(std::span<const std::byte> bytes) const;
  void commit();
  void stop();

  checkpoint::FileLayer& files_;
  CheckpointFolder folder_;
  std::size_t keep_;
  Communicator world_;
  std::string run_;                  // this run's name, no other's; the same on all ranks
  std::optional<std::size_t> step_;  // of the checkpoint under way
  int writers_ = 1;
  std::vector<WrittenPart> written_;  // the thread's
  std::exception_ptr failure_;        // the thread's
  std::atomic<bool> done_ = false;    // the thread has nothing more to do
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
};

}  // namespace ultra::zero
