#pragma once
/// @file
/// ZeroPlusPlusParts: makes the parts of a fully sharded model, those of ZeRO-3 or of ZeRO++.

#include <memory>
#include <optional>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/group_reducer.hpp"
#include "chapters/04_zero/shards/node_groups.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/sharded_unit.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::zero {

/// @brief Chooses what gathers weights and what reduces gradients.
class ZeroPlusPlusParts {
 public:
  /// @brief Groups the ranks into nodes, if there are any.
  /// @param shards  the ranks that share one copy of the model.
  /// Collective when how.node_size is given.
  /// @throws ConfigError with the equation when how.node_size does not divide their number.
  ZeroPlusPlusParts(const Communicator& shards, const ZeroPlusPlus& how);

  /// @brief A unit with its initial weights: UnitWeights, or a ZeroPlusPlusUnit where weights travel
  /// quantised or the node keeps them.
  [[nodiscard]] std::unique_ptr<ShardedUnit> unit(const ParameterGroup& group) const;

  /// @brief A ShardReducer, or a QuantizedReducer where gradients travel quantised.
  [[nodiscard]] std::unique_ptr<GroupReducer> reducer(std::vector<ReducedGroup> groups,
                                                      const Device& device, DType dtype,
                                                      Overlap overlap) const;

 private:
  Communicator shards_;
  ZeroPlusPlus how_;
  std::optional<NodeGroups> nodes_;
};

}  // namespace ultra::zero
