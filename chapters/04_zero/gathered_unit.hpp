#pragma once
/// @file
/// GatheredUnit: a unit of ZeRO-3's weights, wherever its shard is; and the two kinds of it.

#include <cstddef>
#include <memory>

#include "chapters/04_zero/offloaded_states.hpp"
#include "chapters/04_zero/parameter_group.hpp"
#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief What the passes need of a unit: that its shard comes, that it is gathered, and let go of.
class GatheredUnit {
 public:
  GatheredUnit() = default;
  GatheredUnit(const GatheredUnit&) = delete;
  GatheredUnit& operator=(const GatheredUnit&) = delete;
  virtual ~GatheredUnit() = default;

  /// @brief Begins to bring the shard to the device, where it is not there already.
  virtual void start_fetch() {}
  /// @brief Begins to gather the unit, when its shard is there. Collective.
  virtual void start_gather() = 0;
  /// @brief Returns when the unit's parameters have their values.
  virtual void wait() = 0;
  /// @brief Takes the values away and frees the memory of the whole unit.
  virtual void release() = 0;
  /// @brief [padded / S] The shard, where it stays on the device.
  [[nodiscard]] virtual Tensor shard() const = 0;
};

/// @brief A unit whose shard stays on the device: UnitWeights.
[[nodiscard]] std::unique_ptr<GatheredUnit> resident_unit(const ParameterGroup& group,
                                                          const Communicator& shards);

/// @brief A unit whose shard is in storage, and comes for each gather.
///
/// Makes this rank's shard of the initial weights there.
/// Memory: the shard from start_fetch() until it is gathered, as MemoryCategory::kParameters; the
/// whole unit as UnitWeights does.
/// @param states  has the weights of the unit's pieces.
/// @param first   the element of all those in `states` at which the unit's begin.
[[nodiscard]] std::unique_ptr<GatheredUnit> offloaded_unit(const ParameterGroup& group,
                                                           const Communicator& shards,
                                                           OffloadedStates& states,
                                                           std::size_t first);

}  // namespace ultra::zero
