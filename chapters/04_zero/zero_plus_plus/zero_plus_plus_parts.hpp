#pragma once
/// @file
/// ZeroPlusPlusParts: makes the parts of a fully sharded model, those of ZeRO-3 or of ZeRO++.

#include <memory>
#include <optional>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/units.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

/// @brief Chooses what gathers weights and what reduces gradients.
class ZeroPlusPlusParts {
 public:
  /// @brief Groups the ranks into nodes, if there are any.
  /// Collective when how.node_size is given.
  /// @throws ConfigError with the equation when how.node_size does not divide the number of shards.
  ZeroPlusPlusParts(ShardGroups ranks, const ZeroPlusPlus& how);

  /// @brief Units with their initial weights: UnitWeights or, by rows, row_unit(); ZeroPlusPlusUnits
  /// where weights travel quantised or the node keeps them.
  /// @param rows_travel  the type in which rows are gathered; absent: their own.
  [[nodiscard]] Units units(const std::vector<ParameterGroup>& groups,
                            std::optional<DType> rows_travel) const;

  /// @brief A ShardReducer, or a QuantizedReducer where gradients travel quantised.
  [[nodiscard]] std::unique_ptr<GroupReducer> reducer(const std::vector<ParameterGroup>& groups,
                                                      Overlap overlap,
                                                      const train::StepSchedule& schedule) const;

 private:
  ShardGroups ranks_;
  ZeroPlusPlus how_;
  std::optional<NodeGroups> nodes_;
};

}  // namespace ultra::zero
