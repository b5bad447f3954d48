#pragma once
/// @file
/// The command-line options of offloading.

#include <optional>
#include <string>
#include <vector>

#include "chapters/04_zero/offload/offload_settings.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/tensor/device.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/conflict.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

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
