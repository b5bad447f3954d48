#pragma once
/// @file
/// Units of ZeRO-3's weights whose shards are not on the device.

#include <memory>
#include <vector>

#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/units.hpp"
#include "common/comm/communicator.hpp"

namespace ultra::zero {

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
