#pragma once
/// @file
/// The uses of units in a step: what Prefetch follows, compiled from the schedule.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "chapters/04_zero/prefetch.hpp"
#include "common/tensor/shape.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

/// @brief The units of a chunk's parts.
struct ChunkUnits {
  std::vector<std::optional<std::size_t>>
      units;  ///< by part, in forward order; none for a part whose
              ///< weights are not sharded here
  Range
      blocks;  ///< the parts that are blocks: between the embedding, if there is one, and the head
  std::optional<std::size_t> tied =
      {};  ///< the unit of the token table, where the head reads it too

  /// @brief Calls `use` with the units that a part reads, in their order.
  template <class Use>
  void for_each_of(std::size_t part, const Use& use) const {
    if (units[part]) use(*units[part]);
    if (tied && part == blocks.end) use(*tied);
  }

  /// @brief Units 0, 1, ... of a whole model: embedding, blocks, head.
  [[nodiscard]] static ChunkUnits whole(std::size_t units);
};

/// @brief The uses of units along a schedule: forward passes, recomputations and backward passes.
/// Making the gradients of weights that waited reads no weights.
/// @param chunks           of this rank.
/// @param recompute_every  blocks that run forward again together before they run backward; 0: none
/// does.
[[nodiscard]] std::vector<UnitUse> unit_uses(std::span<const train::Action> schedule,
                                             std::span<const ChunkUnits> chunks,
                                             std::size_t recompute_every);

}  // namespace ultra::zero
