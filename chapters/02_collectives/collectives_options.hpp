#pragma once
/// @file
/// The flags by which ranks are measured, or simulated.

#include <string>

#include "chapters/02_collectives/bench/bench_options.hpp"
#include "chapters/02_collectives/simulator/simulate_options.hpp"
#include "common/train/options/comm_options.hpp"

namespace ultra::collectives {

/// @brief What an executable can do with its ranks instead of training: measure a collective, or
/// simulate one on a machine that is not here.
struct CollectivesOptions {
  BenchOptions bench;        ///< --op ...
  SimulateOptions simulate;  ///< --simulate ...

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief True when a simulation is asked for; it needs no ranks.
  [[nodiscard]] bool simulates() const { return simulate.simulates(); }
  /// @brief True when a measurement is asked for.
  [[nodiscard]] bool measures() const { return bench.measures(); }

  /// @brief The answer to --simulate, for stdout.
  [[nodiscard]] std::string simulation() const;
  /// @brief Measures on the ranks that the flags ask for; rank 0 prints.
  void print_measurement(const train::CommOptions& comm, DType dtype) const;
};

}  // namespace ultra::collectives
