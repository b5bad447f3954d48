#pragma once
/// @file
/// The command-line options of the planner.

#include <cstddef>
#include <memory>
#include <string>

#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::planner {

/// @brief --plan and --plan-published with their own flags.
struct PlanOptions {
  bool plan = false;                 ///< --plan: which layout is best
  bool scaling = false;              ///< --plan-scaling: curves and a heat map as JSON
  bool published = false;            ///< --plan-published: the table of published steps
  bool exam = false;                 ///< --plan-exam: steps that it had not seen
  bool techniques = false;           ///< --plan-techniques, which validate() refuses
  bool json = false;                 ///< --plan-json
  std::string model = "llama-8b";    ///< --plan-model, see model_for_plan()
  std::string cluster = "dgx-h100";  ///< --plan-cluster, see replay::cluster_by_name()
  std::string software = "modern";   ///< --plan-software, see find_software()
  std::string precision = "bf16-mixed-fp32grads";            ///< --plan-precision
  std::string optimizer = std::string(optim::kDefaultRule);  ///< --plan-optimizer
  std::vector<std::string> freeze = {};                      ///< --plan-freeze, parts of names
  std::size_t gpus = 64;                                     ///< --plan-gpus
  std::size_t batch_tokens = 1U << 22U;                      ///< --plan-batch, tokens of a step
  std::size_t seq_len = 4096;                                ///< --plan-seq, tokens of a sequence
  std::size_t count = 10;    ///< --plan-count, layouts that a plan names
  std::size_t exported = 1;  ///< --plan-export, whose options are printed
  std::size_t check = 0;     ///< --plan-check, of them: also recorded
  double headroom = 0;       ///< --plan-headroom, part of a GPU's memory
  double tokens = 0;         ///< --plan-tokens, of a whole training
  double price = 0;          ///< --plan-price, dollars for a GPU's hour
  std::string asserted;      ///< --plan-assert, see expect_as_asserted()
  Restriction only = {};     ///< flags of a layout, and --plan-without

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);
  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --plan.
  void validate() const;
  /// @brief The flag that asks for something; empty: none was given.
  [[nodiscard]] const char* asked() const;

  /// @brief The model, the cluster and the program.
  /// @param custom  what --plan-model custom means.
  /// @throws ConfigError for names that there are not and for a batch that is no multiple of the
  /// sequence; FileError for files that are not as they must be.
  [[nodiscard]] Question question(const nn::ModelConfig& custom) const;
  /// @brief What is searched: of what is asked about, what the program has.
  /// @throws ConfigError for an order of ranks, or groups of replicas, that the program has not.
  [[nodiscard]] SearchSpace space(const Question& asked_question) const;

  /// @brief The answer for stdout.
  /// @throws as question(), format_plan() and compare_all() do.
  [[nodiscard]] std::string answer(const nn::ModelConfig& custom) const;
};

/// @brief The planner as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::planner
