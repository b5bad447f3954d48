#pragma once
/// @file
/// The flags by which ranks are measured, or simulated.

#include <string>

#include "chapters/02_collectives/bench/bench_options.hpp"
#include "chapters/02_collectives/simulator/simulate_options.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::collectives {

/// @brief What an executable can do with its ranks instead of training: measure a collective, or
/// simulate one on a machine that is not here.
struct CollectivesOptions {
  BenchOptions bench;        ///< --op ...
  SimulateOptions simulate;  ///< --simulate ...

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @param dtype  of a measurement.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate(DType dtype) const;

  /// @brief True when a simulation is asked for; it needs no ranks.
  [[nodiscard]] bool simulates() const { return simulate.simulates(); }
  /// @brief True when a measurement is asked for.
  [[nodiscard]] bool measures() const { return bench.measures(); }

  /// @brief The answer to --simulate, for stdout.
  [[nodiscard]] std::string simulation() const;
  /// @brief Measures on the ranks that the flags ask for; rank 0 prints.
  /// @throws ConfigError when a rank was started with other flags than rank 0.
  void print_measurement(const train::Setup& setup) const;
};

}  // namespace ultra::collectives
