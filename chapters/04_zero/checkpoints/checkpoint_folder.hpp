#pragma once
/// @file
/// CheckpointFolder: the checkpoints of one training, and what an interrupted run leaves; FolderLock: the right to
/// write to it, which one run has at a time.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/files/descriptor.hpp"
#include "common/checkpoint/files/file_layer.hpp"

namespace ultra::zero {

/// @brief A folder with one folder per checkpoint, "step-00000100". Names that begin with a dot are
/// checkpoints that never became complete, or are being removed; nobody reads them.
class CheckpointFolder {
 public:
  /// @brief Looks at nothing yet.
  CheckpointFolder(checkpoint::FileLayer& files, const std::filesystem::path& folder);

  /// @brief Where the checkpoint of a step is, or will be.
  [[nodiscard]] std::filesystem::path checkpoint(std::size_t step) const;
  /// @brief Where it is until it is complete.
  /// @param run  a name that no other run has: ranks of a run that was killed, which live a moment
  /// longer than the others, must not write into a checkpoint of the next.
  [[nodiscard]] std::filesystem::path staging(std::size_t step, std::string_view run) const;

  /// @brief The steps of the complete checkpoints, ascending; none when the folder is not there.
  [[nodiscard]] std::vector<std::size_t> steps() const;

  /// @brief Makes the folder if needed, and those on the way to it; their names survive a power
  /// failure.
  /// @throws FileError when it cannot be made.
  void make();

  /// @brief Makes the folder, checks that it can be written to, and removes what an interrupted run
  /// has left: nobody else may be writing to it.
  /// @throws FileError when it cannot be made or written to.
  void prepare();

  /// @brief Removes all complete checkpoints but the newest ones; each disappears in one step.
  /// @param count  how many stay; at least 1.
  void keep_newest(std::size_t count);

 private:
  /// Where a name goes whose content is removed.
  [[nodiscard]] std::filesystem::path removed(std::string_view name) const;

  checkpoint::FileLayer& files_;
  std::filesystem::path folder_;
};

/// @brief The checkpoint that `--resume` means: `folder` itself if it is one, else the newest complete
/// one in it.
/// @return nothing when the folder is empty.
/// @throws FileError when there is no such folder, the checkpoint is not whole, or the folder holds
/// other things and no checkpoint: it says which.
[[nodiscard]] std::optional<std::filesystem::path> find_checkpoint(
    checkpoint::FileLayer& files, const std::filesystem::path& folder);

/// @brief The step in the name of a checkpoint's folder; nothing for any other name.
[[nodiscard]] std::optional<std::size_t> step_of(const std::string& name);

/// @brief While it lives, no other FolderLock on this folder can be made: by this process, another
/// one, or one on another machine that shares the folder.
///
/// It is the system's lock (flock) on a file ".lock" in the folder. It dies with its holder,
/// however that ends, and no child has it. The file says who the holder is; a holder that was
/// killed leaves the file, which means nothing to the next. Over NFS (Linux 2.6.12 and later) the
/// server keeps the lock, and frees that of a machine which has failed once it notices.
class FolderLock {
 public:
  /// @param folder    is there.
  /// @param patience  how long to wait for a holder that may be about to end.
  /// @param say       told once, before the wait, for whom it is and how long; may be empty.
  /// @throws FileError that names the holder; or when the folder cannot be written to, or is on a
  /// file system without locks. Interrupted while it waits.
  FolderLock(const std::filesystem::path& folder, std::chrono::milliseconds patience,
             const std::function<void(const std::string&)>& say = {});
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  /// Removes the file and frees the lock.
  ~FolderLock();

 private:
  std::filesystem::path path_;
  checkpoint::Descriptor file_;
};

}  // namespace ultra::zero
