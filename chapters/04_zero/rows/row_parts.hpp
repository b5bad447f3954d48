#pragma once
/// @file
/// ZeRO-3's weights and gradients by rows: what travels is laid out rank by rank, what computes
/// tensor by tensor, and every unit is copied from the one order to the other.

#include <memory>
#include <optional>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/units.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::zero {

/// @brief The weights of a unit of which this rank owns rows of each tensor.
///
/// Makes this rank's shard of the initial weights; gathers as UnitWeights does, then copies each tensor.
/// Where rows travel in another type, all ranks compute with what has travelled, the owner too; shards stay
/// exact. So one rank has the same weights that rounds them before each pass.
/// Memory: the shard, as MemoryCategory::kParameters; as MemoryCategory::kCommunication [padded] from
/// start_gather() to release(), and as much again in wait(); of what travels in its own type.
/// Cost: (S-1)/S of the padded bytes sent per rank.
/// @param group   cut by rows.
/// @param shards  the ranks that own the other rows.
/// @param travels the type in which rows are gathered; absent: that of the parameters.
/// Source: MixedPrecisionPolicy.param_dtype of PyTorch's FSDP2.
[[nodiscard]] std::unique_ptr<ShardedUnit> row_unit(ParameterGroup group,
                                                    const Communicator& shards,
                                                    std::optional<DType> travels = {});

/// @brief Around a reducer of shards: gradients are made tensor by tensor, and copied to the order of
/// the ranks when they are complete.
///
/// Memory: one group more than that of the reducer, as MemoryCategory::kCommunication.
/// @param groups  cut by rows, those of the reducer.
[[nodiscard]] std::unique_ptr<GroupReducer> row_reducer(std::unique_ptr<GroupReducer> reducer,
                                                        std::vector<ParameterGroup> groups);

}  // namespace ultra::zero
