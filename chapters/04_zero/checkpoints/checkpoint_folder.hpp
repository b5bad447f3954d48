#pragma once
/// @file
/// CheckpointFolder: the checkpoints of one training, and what an interrupted run leaves.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace ultra::zero
