#pragma once
/// @file
/// ShardedUnit: a unit of weights that comes and goes, however it travels.

#include "chapters/04_zero/prefetch.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief The weights of one unit (the embedding, a block, the head), of which this rank owns a
/// shard.
/// @see UnitWeights, which gathers them as they are; ZeroPlusPlusUnit, which sends fewer bytes;
/// offloaded_unit(), whose shard is not on the device
class ShardedUnit {
 public:
  ShardedUnit() = default;
  ShardedUnit(const ShardedUnit&) = delete;
  ShardedUnit& operator=(const ShardedUnit&) = delete;
  /// @brief A unit moves; there are no copies of it.
  ShardedUnit(ShardedUnit&&) = default;
  /// @copybrief ShardedUnit(ShardedUnit&&)
  ShardedUnit& operator=(ShardedUnit&&) = default;
  virtual ~ShardedUnit() = default;

  /// @brief [padded / S] The weights that this rank owns, and updates.
  /// @throws InternalError when they are not on the device.
  [[nodiscard]] virtual const Tensor& shard() const = 0;

  /// @brief Says for what the unit is gathered next.
  virtual void next_use([[maybe_unused]] UseKind kind) {}

  /// @brief Begins to bring the shard to the device, where it is not there already.
  virtual void start_fetch() {}

  /// @brief Takes memory and begins to gather the unit.
  /// @throws InternalError when it is there, or under way.
  /// Collective.
  virtual void start_gather() = 0;

  /// @brief Returns when the unit is there: its parameters have their values. May be called again.
  /// @throws InternalError without start_gather().
  virtual void wait() = 0;

  /// @brief Takes the values away from the unit's parameters and frees the memory of the whole
  /// unit.
  /// @throws InternalError without start_gather().
  virtual void release() = 0;
};

}  // namespace ultra::zero
