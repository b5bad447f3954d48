#pragma once
/// @file
/// The command-line options of the table that says what dispatching tokens costs on a machine that
/// is not here.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "chapters/08_expert_parallel/cost/dispatch_cost.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::expert_parallel {

/// @brief --ep-table with its own flags.
struct EpTableOptions {
  static constexpr const char* kFlag = "--ep-table";  ///< that asks for it

  std::string nodes;                  ///< --ep-table "1,2,8"; empty means: train
  std::string machine = "h100";       ///< --ep-table-machine, see parse_topology(); one node
  std::string model = "deepseek-v3";  ///< --ep-table-model, a published one
  std::size_t tokens = 4096;          ///< --ep-table-tokens, per rank
  std::size_t node_limit = 0;         ///< --ep-table-node-limit; 0: any number
  std::size_t element_bytes = 2;      ///< --ep-table-bytes
  bool json = false;                  ///< --ep-table-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);
  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --ep-table.
  void validate() const;
  /// @brief True when a table is asked for, not training.
  [[nodiscard]] bool predicts() const { return !nodes.empty(); }

  /// @brief The questions: one for each number of nodes.
  /// @throws ConfigError for numbers, a machine or a model that there are not.
  [[nodiscard]] std::vector<DispatchQuestion> questions() const;

  /// @brief The answer to --ep-table, for stdout: a table, or JSON with --ep-table-json.
  /// @throws ConfigError as questions() and dispatch_costs() do.
  [[nodiscard]] std::string answer(const nn::ModelConfig& custom) const;
};

/// @brief --ep-table as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> dispatch_table();

}  // namespace ultra::expert_parallel
