#pragma once
/// @file
/// The command-line options of ZeRO++.

#include <cstddef>
#include <optional>
#include <string>

#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/conflict.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief What --zero++ must fit to.
struct ZeroPlusPlusContext {
  ZeroStage stage = ZeroStage::kNone;            ///< --zero
  Reshard reshard = Reshard::kAfterForward;      ///< --reshard-after-forward
  std::optional<std::size_t> hybrid_shard = {};  ///< --hybrid-shard
};

/// @brief Which techniques of ZeRO++ are in use.
struct ZeroPlusPlusOptions {
  std::string techniques;  ///< --zero++: words with commas between them; empty: none
  ZeroPlusPlus settings;   ///< what the words and --node-size mean

  /// @brief Adds the flags to a command line. --reduce-scatter is there already.
  /// A list that names an unknown word, one twice, or both kinds of gradients throws ConfigError while
  /// the command line is read.
  void add_to(CLI::App& app);

  /// @brief Checks that the flags fit together, and to those of ZeRO.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate(const ZeroPlusPlusContext& zero) const;

  /// @brief What these flags do not go together with.
  [[nodiscard]] std::vector<train::Conflict> conflicts(const ZeroPlusPlusContext& zero) const;

  /// @brief Checks that nodes of --node-size make up the replicas of a training.
  /// @throws ConfigError with the equation.
  void expect_nodes_of(int replicas) const;

  /// @brief These flags for the metrics file; nothing without --zero++.
  [[nodiscard]] train::ExtraConfig config() const;

 private:
  bool reduce_scatter_given_ = false;
};

/// @brief The techniques that a list names, without nodes.
/// @param list  "weights-int8,hierarchical", for example.
/// @throws ConfigError for an unknown word, one that is there twice, and both kinds of gradients.
[[nodiscard]] ZeroPlusPlus parse_techniques(const std::string& list);

}  // namespace ultra::zero
