#pragma once
/// @file
/// ModelCosts: what a model costs, whatever schedule cuts it into parts.

#include "chapters/07_pipeline_parallel/schedule/placement.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief Costs of a model whose blocks are dealt out evenly, with an embedding and a head.
struct ModelCosts {
  PartCost stage = {.saved_bytes = 1, .saved_bytes_after_b = 1};  ///< of 1/p of the blocks
  double embedding = 0;      ///< of the first part in addition, over a stage's: F, B and W
  double head = 0;           ///< of the last part in addition, over a stage's: F, B and W
  double overlapped = 1;     ///< see CostModel
  LinkCost link = {};        ///< see CostModel
  double message_bytes = 0;  ///< see CostModel
  double update = 0;         ///< see CostModel

  /// @brief What the parts of a placement cost: each has 1 / chunks() of a stage's blocks.
  [[nodiscard]] CostModel on(const Placement& placement) const;
};

}  // namespace ultra::pipeline_parallel
