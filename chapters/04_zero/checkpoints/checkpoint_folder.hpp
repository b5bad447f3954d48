#pragma once
/// @file
/// CheckpointFolder: the checkpoints of one training, and what an interrupted run leaves beside them.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/file_layer.hpp"

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
  [[nodiscard]] std::filesystem::path staging(std::size_t step) const;

  /// @brief The steps of the complete checkpoints, ascending; none when the folder is not there.
  [[nodiscard]] std::vector<std::size_t> steps() const;

  /// @brief Makes the folder if needed, checks that it can be written to, and removes what an
  /// interrupted run has left.
  /// @throws FileError when it cannot be made or written to.
  void prepare();

  /// @brief Removes all complete checkpoints but the newest ones; each disappears in one step.
  /// @param count  how many stay; at least 1.
  void keep_newest(std::size_t count);

 private:
  /// Makes the folder, and those on the way to it, so that their names survive a power failure.
  void make_durable_folder();

  checkpoint::FileLayer& files_;
  std::filesystem::path folder_;
};

/// @brief The checkpoint that `--resume` means: `folder` itself if it is one, else the newest complete
/// one in it.
/// @return nothing when the folder is empty.
/// @throws FileError when there is no such folder, or it holds other things and no checkpoint.
[[nodiscard]] std::optional<std::filesystem::path> find_checkpoint(
    checkpoint::FileLayer& files, const std::filesystem::path& folder);

/// @brief The step in the name of a checkpoint's folder; nothing for any other name.
[[nodiscard]] std::optional<std::size_t> step_of(const std::string& name);

}  // namespace ultra::zero
