#pragma once
/// @file
/// The command-line options of the measurement of collectives.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/02_collectives/bench/collective_bench.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::collectives {

/// @brief --op with its own flags.
struct BenchOptions {
  std::string op;                       ///< --op: a collective; empty means: train
  std::vector<std::string> algorithms;  ///< --algorithm; empty: all, and the platform's own
  std::string min_bytes = "1KB";        ///< --min-bytes: of the whole array
  std::string max_bytes = "16MB";       ///< --max-bytes
  std::size_t step_factor = 4;          ///< --step-factor: from one size to the next
  std::size_t iterations = 20;          ///< --iterations: measured runs of each
  std::string check = "on";             ///< --check: count wrong elements
  std::size_t ranks_per_node = 1;       ///< --ranks-per-node: for two-level
  bool json = false;                    ///< --op-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --op, or cannot work.
  void validate() const;

  /// @brief True when a measurement is asked for, not training.
  [[nodiscard]] bool measures() const { return !op.empty(); }

  /// @brief What to measure.
  /// @throws ConfigError for an operation, algorithm or size that there is not.
  [[nodiscard]] BenchRequest request(DType dtype) const;
};

}  // namespace ultra::collectives
