#pragma once
/// @file
/// Which layers each part of a pipeline has, and the seconds that its pieces take on this machine.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/placement.hpp"
#include "common/nn/model.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/options/options.hpp"
#include "common/train/plan.hpp"

namespace ultra::pipeline_parallel {

/// @brief What the pieces of a model take, forward and backward, in whatever unit.
struct PieceCosts {
  double embedding = 0;  ///< the token table
  double block = 1;      ///< one transformer block
  double head = 0;       ///< final norm, output projection and loss
};

/// @brief Floating-point operations of the matrix products and of attention, per token and forward
/// pass; a backward pass takes twice as many.
/// Source: Narayanan et al. 2021 (arXiv 2104.04473), section 5.1, with the mask's half of attention
/// and grouped keys.
[[nodiscard]] PieceCosts operations_of(const nn::ModelConfig& config);

/// @brief How the layers are dealt out: by a rule, or as given.
struct StageSplit {
  /// Who says how many layers a part has.
  enum class Rule {
    kBalanced,  ///< operations_of()
    kMeasured,  ///< seconds that the pieces take on this machine
    kGiven      ///< the user
  };
  Rule rule = Rule::kBalanced;           ///< which
  std::vector<std::size_t> layers = {};  ///< of each part, in the model's order; kGiven only

  /// @brief As on the command line: "balanced", "measured" or "3,2,3".
  [[nodiscard]] std::string str() const;
};

/// @brief What str() writes.
/// @throws ConfigError for anything else.
[[nodiscard]] StageSplit parse_stage_split(std::string_view text);

/// @brief Checks that the layers can be dealt out to the parts.
/// @throws ConfigError with the numbers, and what to do.
void expect_split(const StageSplit& split, std::size_t layers, const Placement& placement);

/// @brief Layers of each part so that the rank that has most to do has as little as possible; of
/// such splits one in which the parts of a rank differ least. Each part has at least one layer.
/// @pre There are as many layers as parts.
[[nodiscard]] std::vector<std::size_t> balanced_layers(std::size_t layers,
                                                       const Placement& placement,
                                                       const PieceCosts& costs);

/// @brief The parts of a model.
/// @param layers  of each part, in the model's order.
[[nodiscard]] std::vector<nn::StageSpec> parts_of_model(std::span<const std::size_t> layers);

/// @brief Seconds of a forward and a backward pass of a micro-batch: of the token table, of a
/// block, and of the head; the least of a few tries of rank 0, on one device, without what splits
/// layers. Collective over plan.ranks(): the same on all. Communication: a broadcast of three
/// numbers.
[[nodiscard]] PieceCosts measure_pieces(const train::TrainOptions& options,
                                        const train::Plan& plan);

}  // namespace ultra::pipeline_parallel
