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

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/02_collectives/bench/collective_bench.hpp"
#include "chapters/02_collectives/simulator/simulate_report.hpp"
#include "common/train/cli/technique.hpp"
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
