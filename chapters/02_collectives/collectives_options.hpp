#pragma once
/// @file
/// All flags of chapter 02 in one place, for its executable and those of later chapters.

#include <functional>

#include "chapters/02_collectives/bench/bench_options.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/02_collectives/simulator/simulate_options.hpp"
#include "common/train/options/comm_options.hpp"
#include "common/train/options/options.hpp"

namespace ultra::collectives {

/// @brief How the ranks communicate, and what an executable can do with them instead of training:
/// measure a collective, or simulate one on a machine that is not here.
struct CollectivesOptions {
  train::CommOptions comm;   ///< --ranks --collectives --link ...
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

  /// @brief What a program does with these flags: it simulates, prints how many ranks it needs,
  /// measures, or trains.
  /// @param training    called to train, unless another answer is asked for; its flags are valid.
  /// @param validate    checks the flags of training, before --print-ranks answers and before it.
  void run(const train::TrainOptions& options, const std::function<void()>& validate,
           const std::function<void()>& training) const;

 private:
  void print_simulation() const;
  void print_measurement(DType dtype) const;
};

/// @brief Calls `fn` on one process, for what needs no ranks: under mpirun the others do nothing.
template <class Fn>
void on_one_process(Fn&& fn) {
  if (launched_rank() == 0) fn();
}

}  // namespace ultra::collectives
