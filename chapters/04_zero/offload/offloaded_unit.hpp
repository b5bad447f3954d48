#pragma once
/// @file
/// Units of ZeRO-3's weights whose shards are not on the device.

#include <cstddef>
#include <memory>

#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/sharded_unit.hpp"
#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief A unit whose shard is in storage, and comes for each gather.
///
/// Makes this rank's shard of the initial weights there.
/// Memory: the shard from start_fetch() until it is gathered, as MemoryCategory::kParameters; the
/// whole unit as UnitWeights does.
/// @param states  has the weights of the unit's pieces.
/// @param first   the element of all those in `states` at which the unit's begin.
[[nodiscard]] std::unique_ptr<ShardedUnit> offloaded_unit(const ParameterGroup& group,
                                                          const Communicator& shards,
                                                          OffloadedStates& states,
                                                          std::size_t first);

}  // namespace ultra::zero
