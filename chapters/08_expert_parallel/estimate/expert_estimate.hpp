#pragma once
/// @file
/// `08_expert_parallel --estimate MODEL --experts E --ep N`: the formulas of moe_memory.hpp as a
/// table and as JSON.

#include <optional>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/08_expert_parallel/estimate/moe_memory.hpp"

namespace ultra::expert_parallel {

/// @brief A question about the memory of one rank.
struct ExpertRequest {
  MoeModel model;                                                       ///< with experts
  memory::BatchShape batch;                                             ///< of a replica
  memory::NumberFormats precision = memory::NumberFormats::kBf16Mixed;  ///< formats of the numbers
  memory::RecomputeConfig recompute = {};  ///< which activations are kept
  LocalMoe rank = {};                      ///< into how many parts it is cut
  zero::Sharding sharding = {};            ///< of its states over dp times cp ranks

  /// @brief Checks that experts, matrices and sequences can be split.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief The answer for one number of ranks.
struct ExpertEstimate {
  std::size_t ep = 1;                    ///< ranks that hold the experts together
  RankParameters parameters;             ///< of a rank, before any are sharded
  zero::RankBytes states;                ///< that a rank keeps from step to step
  std::optional<std::size_t> even = {};  ///< highest bytes of activations, tokens evenly spread;
                                         ///< absent: blocks of another kind than ours
  std::optional<std::size_t> most = {};  ///< the same, of a rank whose experts everybody chooses

  /// @brief Bytes of states and of the activations at their highest.
  [[nodiscard]] double total() const {
    return states.total() + static_cast<double>(even.value_or(0));
  }
};

/// @brief The answers for 1 rank and more, up to the requested number: those of its divisors that
/// divide the experts.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] std::vector<ExpertEstimate> estimate_up_to(const ExpertRequest& request);

/// @brief The answer to --estimate as a table.
[[nodiscard]] std::string format_estimates(const ExpertRequest& request);
/// @brief The same as one JSON object.
[[nodiscard]] std::string json_of_estimates(const ExpertRequest& request);

}  // namespace ultra::expert_parallel
