#pragma once
/// @file
/// The command-line options of the table that says which method of context parallelism wins.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "chapters/06_context_parallel/cost/method_cost.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::context_parallel {

/// @brief --cp-table with its own flags.
struct CpTableOptions {
  static constexpr const char* kFlag = "--cp-table";  ///< that asks for it

  std::string cp;                   ///< --cp-table "2,4,8,16"; empty means: train
  std::string machine = "h100";     ///< --cp-table-machine, see parse_topology(); one node
  std::string preset = "llama-8b";  ///< --cp-table-preset, as for --estimate
  std::string seq_len = "131072";   ///< --cp-table-seq, one or several
  std::size_t batch = 1;            ///< --cp-table-micro-batch
  std::size_t tp = 1;               ///< --cp-table-tp
  std::size_t element_bytes = 2;    ///< --cp-table-bytes
  double peak_tflops = 989.0;       ///< --cp-table-peak-tflops, 1e12 FLOP/s
  double mfu = 0.5;                 ///< --cp-table-mfu
  bool json = false;                ///< --cp-table-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);
  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --cp-table.
  void validate() const;
  /// @brief True when a table is asked for, not training.
  [[nodiscard]] bool predicts() const { return !cp.empty(); }

  /// @brief The questions: one for each length of sequence and number of ranks, in this order.
  /// @param custom  what --cp-table-preset custom means.
  /// @throws ConfigError for numbers, a machine or a model that there are not.
  [[nodiscard]] std::vector<MethodQuestion> questions(const nn::ModelConfig& custom) const;

  /// @brief The answer to --cp-table, for stdout: a table, or JSON with --cp-table-json.
  /// @throws ConfigError as questions() does.
  [[nodiscard]] std::string answer(const nn::ModelConfig& custom) const;
};

/// @brief --cp-table as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> method_table();

}  // namespace ultra::context_parallel
