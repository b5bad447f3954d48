#pragma once
/// @file
/// Chapter 02 as a technique: several ranks that hold the same model, and the algorithms by which
/// they talk.
///
/// | part of training | becomes                                  | where               |
/// |------------------|------------------------------------------|---------------------|
/// | the global batch | N equal shares                           | replicated_training |
/// | a gradient       | its sum over the ranks, after the passes | replicated_training |
/// | any collective   | steps of messages, written out           | choice/             |

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/02_collectives/bench/bench_options.hpp"
#include "chapters/02_collectives/simulator/simulate_options.hpp"
#include "common/train/cli/technique.hpp"

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

/// @brief --ranks, --collectives, --link; --op measures and --simulate predicts a collective.
class Collectives : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Question> questions() const override;
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override;
  void measure(const train::Setup& setup) const override;
  [[nodiscard]] std::shared_ptr<const comm::CollectiveAlgorithms> algorithms(
      const train::AlgorithmNames& names) const override;
  [[nodiscard]] replay::PriceExchange exchange_price() const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;

 private:
  CollectivesOptions options_;
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::collectives
