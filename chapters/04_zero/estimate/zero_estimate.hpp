#pragma once
/// @file
/// `04_zero --estimate MODEL --dp N`: the formulas of zero_memory.hpp as a table and as JSON.

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "chapters/01_memory/memory_options.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "common/base/json.hpp"
#include "common/train/options/options.hpp"

namespace ultra::zero {

/// @brief A question about all stages of one model.
struct StagesRequest {
  std::string model;                                                    ///< its name, for the table
  std::size_t parameters = 0;                                           ///< P, at least 1
  memory::NumberFormats precision = memory::NumberFormats::kBf16Mixed;  ///< formats of the numbers
  int ranks = 1;                                                        ///< N
  std::optional<std::size_t> node_size = {};         ///< S of hybrid sharding; absent: N
  std::size_t micro_batches = 1;                     ///< m, per rank and step
  std::optional<std::size_t> peak_activations = {};  ///< bytes per rank; absent: not known

  /// @brief Checks that there are ranks, and nodes of that size.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;

  /// @brief Who shares what at a stage.
  /// @pre The request is valid.
  [[nodiscard]] Sharding sharding(ZeroStage stage) const;
};

/// @brief The answer for one stage.
struct StageEstimate {
  Sharding sharding;                   ///< the stage, and who shares
  RankBytes bytes;                     ///< that a rank keeps
  double with_activations = 0;         ///< bytes at the step's peak; without activations if unknown
  SentElements sent;                   ///< by a rank in a step
  std::optional<SentElements> kept{};  ///< ZeRO-3 only: the same with Reshard::kAfterBackward
  double largest_model = 0;            ///< parameters whose states fit into memory::kGpuBytes
};

/// @brief All stages, in their order.
using StageEstimates = std::array<StageEstimate, kZeroStages.size()>;

/// @brief Computes the answer for all stages.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] StageEstimates estimate_stages(const StagesRequest& request);

/// @brief The first stage that needs no more than memory::kGpuBytes; none when all need more.
[[nodiscard]] std::optional<ZeroStage> first_that_fits(const StageEstimates& stages);

/// @brief The stages as lines for the terminal: what a rank keeps, with its formula, and what it
/// sends.
///
/// GB = 1e9 bytes; MB below 10 GB in total.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] std::string format_stages(const StagesRequest& request);

/// @brief The stages as members of a JSON object: "ranks", "node_size", "micro_batches", "stages".
///
/// Bytes and elements are averages over the ranks, as real numbers.
/// @throws ConfigError when the request is not valid.
[[nodiscard]] Json stages_to_json(const StagesRequest& request);

/// @brief A size that stands for a model: "7.5B" is 7,500,000,000 parameters; M, B or T, in either
/// case.
/// @return nothing when the text is no such size, not a whole number, 0, or above 100T.
[[nodiscard]] std::optional<std::size_t> nominal_size(const std::string& text);

/// @brief The answer to --estimate, for stdout: a table, or one JSON object with --json.
///
/// A model whose shape is known gets chapter 01's estimate, for one device that holds everything,
/// and behind it the stages with the peak of the activations; a nominal size gets the stages alone.
/// @param options    MODEL, --precision, --recompute, --json.
/// @param train      --seq and --micro-batch; with --global-batch they also give m, the largest
///                   rank's number of micro-batches.
/// @param ranks      N.
/// @param node_size  ranks per node of hybrid sharding; absent: sharded over all ranks.
/// @throws ConfigError for an unknown model, one that cannot be, and nodes that are not whole.
[[nodiscard]] std::string answer(const memory::MemoryOptions& options,
                                 const train::TrainOptions& train, int ranks,
                                 std::optional<std::size_t> node_size);

}  // namespace ultra::zero
