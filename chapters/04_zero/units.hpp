#pragma once
/// @file
/// Units of weights that come and go.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/model.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

class OffloadedStates;

/// @brief The weights of one unit (the embedding, a block, the head), of which this rank owns a
/// shard.
/// @see UnitWeights, which gathers them as they are; ZeroPlusPlusUnit, which sends fewer bytes;
/// offloaded_units(), whose shards are not on the device
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

  /// @brief [elements] The weights of a piece that this rank owns, where it updates them.
  /// @param piece  its number among all that the rank updates.
  /// @param place  in the unit's shard.
  [[nodiscard]] virtual Tensor piece(std::size_t piece, const Range& place) const = 0;

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

/// Those of a rank, each with the number of its group.
using Units = std::vector<std::unique_ptr<ShardedUnit>>;

/// @brief What gathers units and lets go of them.
/// @param units  outlive the result's use.
[[nodiscard]] UnitActions gathers_of(const Units& units);

/// @brief What becomes of units in these passes: none is kept for a backward pass that does not come.
/// @param wanted  in a step of training.
[[nodiscard]] Reshard reshard_in(const train::StepSchedule& schedule, Reshard wanted);

/// @brief The units of each chunk: a group of groups_by_part() is one.
[[nodiscard]] std::vector<ChunkUnits> units_of_chunks(const std::vector<nn::Model*>& chunks,
                                                      const std::vector<ParameterGroup>& groups);

/// @brief Units whose shards are in storage, and come for each gather.
///
/// Makes this rank's shards of the initial weights there.
/// Memory: a shard from start_fetch() until it is gathered, as MemoryCategory::kParameters; a whole
/// unit as UnitWeights does.
/// @param states  has the weights of the groups' pieces; outlives the units.
[[nodiscard]] Units offloaded_units(const std::vector<ParameterGroup>& groups,
                                    const Communicator& shards, OffloadedStates& states);

/// @brief Brings the shards of offloaded units to the device, earlier than they are gathered.
class ShardFetches {
 public:
  /// @brief Stands around the parts of the chunks from now on. What gathers the units is added to
  /// them later: a shard comes before it is gathered.
  /// @param parts, units  outlive this object.
  ShardFetches(const std::vector<nn::Model*>& chunks, const std::vector<ChunkUnits>& parts,
               const Units& units, std::size_t ahead);
  ShardFetches(const ShardFetches&) = delete;
  ShardFetches& operator=(const ShardFetches&) = delete;

  /// @copybrief Prefetch::follow
  void follow(const std::vector<UnitUse>& uses, Reshard reshard) {
    prefetch_.follow(uses, reshard);
  }

 private:
  Prefetch prefetch_;
  std::vector<nn::HookHandle> hooks_;  // of the chunks
};

}  // namespace ultra::zero
