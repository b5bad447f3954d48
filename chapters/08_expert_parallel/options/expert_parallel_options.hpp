#pragma once
/// @file
/// The command-line options of mixtures of experts and of expert parallelism.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::expert_parallel {

/// @brief Which experts there are, how tokens choose them, and how many ranks hold them.
struct ExpertParallelOptions {
  MoeConfig moe;                          ///< --experts and what belongs to them; not expert_ffn
  std::optional<std::size_t> expert_ffn;  ///< --expert-ffn; as --ffn unless given
  std::size_t ep = 1;                     ///< --ep

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values against each other.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Whether there are experts at all.
  [[nodiscard]] bool has_experts() const { return moe.num_experts > 0; }
  /// @brief The whole configuration.
  /// @param ffn  width of a dense feed-forward part: an expert's unless a flag says another.
  [[nodiscard]] MoeConfig config(std::size_t ffn) const;
  /// @brief The flags that decide what is trained: a checkpoint goes on with the same ones.
  [[nodiscard]] std::map<std::string, std::string> identity(std::size_t ffn) const;
  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig extra_config(std::size_t ffn) const;

 private:
  std::vector<std::string> given_;  // flags that need experts, as they were given
};

/// @brief What experts stand in, and what passes through them at once.
struct ExpertBatch {
  std::size_t layers = 0;  ///< blocks with experts
  std::size_t hidden = 0;  ///< width of a token
  std::size_t tokens = 0;  ///< of a micro-batch
};

/// @brief Checks that experts can be counted in bytes, without overflow.
/// @param most_bytes  that their weights, with gradients and moments, and activations may take.
/// @throws ConfigError that names the flags to lower.
void expect_countable_experts(const MoeConfig& config, const ExpertBatch& batch, double most_bytes);

/// @brief Checks that tp ranks can share each expert.
/// @throws ConfigError with the equation that does not hold, its values and the flag to change.
void expect_divisible_experts(const MoeConfig& config, std::size_t tp);

}  // namespace ultra::expert_parallel
