#pragma once
/// @file
/// The command-line options of chapter 09.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/selection.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::ladders {

/// @brief What the flags ask for, checked.
struct KernelsRequest {
  /// @brief Which rungs.
  Selection selection;
  /// @brief The problem, where, and how often it is timed there.
  RunRequest run;
};

/// @brief Which kernels to run, on what, where, and what to show.
struct KernelsOptions {
  bool list = false;                   ///< --list
  std::string kernel = "matmul_fp32";  ///< --kernel: LADDER, LADDER/NUMBER or LADDER/NAME
  std::string size;                    ///< --size: 128 or 128x96x64; empty: the ladder's default
  std::uint64_t seed = 1;              ///< --seed: of the random inputs
  bool emulate = false;                ///< --emulate
  bool gpu = false;                    ///< --gpu
  std::size_t repetitions = 20;        ///< --repetitions: timed runs on a GPU
  bool counters = false;               ///< --counters: per source line
  std::string metrics;                 ///< --metrics: JSON lines; empty means none

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief What to run.
  /// @param has_gpu  whether this machine has a GPU: then it is the default executor, except for
  /// --counters.
  /// @throws ConfigError for flags that contradict each other, and for what cannot be run.
  [[nodiscard]] KernelsRequest request(std::span<const std::unique_ptr<Ladder>> ladders,
                                       bool has_gpu) const;

 private:
  [[nodiscard]] simt::Executor executor(bool has_gpu) const;
  void validate() const;
};

}  // namespace ultra::ladders
