#pragma once
/// @file
/// What a rank keeps outside its device's memory, and where; and the command-line options that say it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/04_zero/zero_stage.hpp"
#include "common/storage/async_file.hpp"
#include "common/tensor/device.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/conflict.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief What of a rank's shards does not stay in the device's memory.
enum class Offload {
  kNone,                    ///< everything stays
  kOptimizer,               ///< the optimizer's states go, and come back in blocks for the step
  kOptimizerAndParameters,  ///< the shards of the weights too; stage 3 only (as ZeRO-Infinity)
};

/// @brief Makes storage of so many zeros.
using OpenStorage = std::function<std::unique_ptr<storage::AsyncFile>(std::uint64_t bytes)>;

/// @brief How states are offloaded.
///
/// The optimizer's states are its moments, in the type that it updates weights in, and the master
/// weights of mixed precision.
struct OffloadSettings {
  Offload what = Offload::kNone;               ///< which states
  std::string folder = {};                     ///< of the scratch file; empty: the host's memory
  std::optional<double> gigabytes_per_second;  ///< slows the storage to that, each way
  std::size_t least_block_bytes = 1 << 18;     ///< of a block's moments, if there are as many
  OpenStorage open = {};                       ///< a storage of the caller's; empty: the above

  /// @brief Whether weights are offloaded.
  [[nodiscard]] bool offloads_parameters() const {
    return what == Offload::kOptimizerAndParameters;
  }
};

/// @brief Makes the storage that the settings name.
/// @throws FileError when the folder is missing, cannot be written to, or its disk is too full;
/// OutOfMemory when the host has not as much memory.
[[nodiscard]] std::unique_ptr<storage::AsyncFile> open_storage(const OffloadSettings& settings,
                                                               std::uint64_t bytes);

/// @brief What leaves the device's memory, and where it goes.
struct OffloadOptions {
  Offload what = Offload::kNone;  ///< --offload
  std::optional<std::string> to;  ///< --offload-to: "memory" or "file:DIR"; absent: memory
  std::optional<double> gbps;     ///< --offload-gbps: slows the storage to 1e9 bytes per second

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values, and that they have a meaning in this stage.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate(ZeroStage stage) const;

  /// @brief What these flags do not go together with.
  /// @param plus_plus  the techniques of --zero++; empty: none.
  [[nodiscard]] std::vector<train::Conflict> conflicts(ZeroStage stage,
                                                       const std::string& plus_plus) const;

  /// @brief These flags as settings.
  [[nodiscard]] OffloadSettings settings() const;

  /// @brief These flags for the metrics file; none without --offload.
  [[nodiscard]] train::ExtraConfig config() const;
};

}  // namespace ultra::zero
