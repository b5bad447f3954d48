#pragma once
/// @file
/// The command-line options of the link simulator.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/02_collectives/simulator/simulate_report.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::collectives {

/// @brief --simulate with its own flags.
struct SimulateOptions {
  std::string simulate;                 ///< a machine, see parse_topology(); empty means: train
  std::string op = "all_reduce";        ///< --simulate-op
  std::vector<std::string> algorithms;  ///< --simulate-algorithms; empty: all
  std::string sizes = "1KB:1GB";        ///< --simulate-sizes, see parse_sizes()
  bool json = false;                    ///< --simulate-json
  bool messages = false;                ///< --simulate-messages

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without another.
  void validate() const;

  /// @brief True when a simulation is asked for, not training.
  [[nodiscard]] bool simulates() const { return !simulate.empty(); }

  /// @brief The question to the simulator.
  /// @throws ConfigError for a machine, an operation, an algorithm or sizes that there are not.
  [[nodiscard]] SimulationRequest request() const;
};

/// @brief Reads "1KB:1GB" (every tenfold size), "1KB:1GB:2" (every doubled one), or "4KB,1MB".
/// @return bytes, ascending.
/// @throws ConfigError when it is none of these, or has more than 100 sizes.
[[nodiscard]] std::vector<std::size_t> parse_sizes(const std::string& text);

}  // namespace ultra::collectives
