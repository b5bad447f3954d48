#pragma once
/// @file
/// Prefetch: which unit's weights are gathered and released when, along the passes of a step.
///
/// A unit that is gathered when it is needed makes the rank wait for the link. So the next units
/// are gathered while this one computes: the same order, earlier. The order is known: the step's
/// schedule says it.
///
/// Exercise 04.5 (`./workbook check 04.5`). Body: solutions/04_zero/prefetch.cpp.
/// Source: Zhao et al. 2023, "PyTorch FSDP", arXiv 2304.11277, sections 3.3.2 and 3.3.3.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/tensor/shape.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

/// @brief What becomes of a unit between its forward and its backward pass.
enum class Reshard {
  kAfterForward,  ///< released, and gathered again, except the head at the forward-backward boundary (FULL_SHARD,
                  ///< ZeRO-3)
  kAfterBackward,  ///< kept: memory for one gather less (SHARD_GRAD_OP)
};

/// @brief What a pass does with a unit's weights.
enum class UseKind : std::uint8_t {
  kForward,        ///< a forward pass
  kRecomputation,  ///< a forward pass that runs again: the backward pass of the same unit follows
  kBackward,       ///< a backward pass
};

/// @brief One pass that reads the weights of a unit.
struct UnitUse {
  std::size_t unit = 0;              ///< whose weights
  UseKind kind = UseKind::kForward;  ///< for what
  bool operator==(const UnitUse&) const = default;
};

/// @brief The units of a chunk's parts.
struct ChunkUnits {
  std::vector<std::optional<std::size_t>>
      units;     ///< by part, in forward order; none for a part whose weights are not sharded here
  Range blocks;  ///< the parts that are blocks: between the embedding, if there is one, and the
                 ///< head
  std::optional<std::size_t> tied =
      {};  ///< the unit of the token table, where the head reads it too

  /// @brief The units that a part reads, in their order.
  [[nodiscard]] std::vector<std::size_t> of(std::size_t part) const;

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

/// @brief How units are gathered and released.
struct UnitActions {
  std::function<void(const UnitUse&)> start_gather;  ///< begins to gather the unit of a use
  std::function<void(std::size_t)> wait;             ///< returns when a unit is there
  std::function<void(std::size_t)> release;          ///< frees a unit
};

/// @brief Follows the passes of a step through the units and calls the actions.
///
/// When a use begins, the units of the next `ahead` uses have been asked for too, in their order; a
/// unit that is there, or under way, is not asked for again. The backward pass of a unit that was
/// just computed again does not count as another use.
///
/// A unit whose backward pass is the next use stays: at the forward-backward boundary the head
/// is needed at once. So does a unit that is computed again, until its backward pass is over. With
/// Reshard::kAfterBackward a unit stays until the backward passes of all micro-batches that have
/// used it forward are over.
class Prefetch {
 public:
  /// @brief Nothing is gathered.
  /// @param ahead  uses to look ahead; 0 gathers each unit when it is needed.
  Prefetch(std::size_t ahead, UnitActions actions) : ahead_(ahead), actions_(std::move(actions)) {}

  /// @brief The passes that begin now, between steps, use the units in this order, again and again.
  void follow(std::vector<UnitUse> uses, Reshard reshard);

  /// @brief The next use begins: its unit is there when this returns.
  /// @throws InternalError when it is not one of this unit: passes run in another order than the
  /// uses.
  void gather(std::size_t unit);
  /// @brief That use is over: its unit is released, unless it stays.
  void free(std::size_t unit);

  /// @brief The use of a part begins: each unit that it reads is there when this returns.
  void gather(const std::vector<std::size_t>& units) {
    for (const std::size_t unit : units) gather(unit);
  }
  /// @brief That use is over.
  void free(const std::vector<std::size_t>& units) {
    for (const std::size_t unit : units) free(unit);
  }

 private:
  /// The use that begins next, which must be one of this unit; the first one comes again after the
  /// last.
  std::size_t next_use(std::size_t unit);
  /// Asks for the units of a use and of those ahead of it, and waits for the first.
  void begin_use(std::size_t use);
  /// Whether the unit of a use that is over must stay.
  bool stays(std::size_t use);
  void ask_for(std::size_t use);

  std::vector<UnitUse> uses_;  // of a step
  std::size_t ahead_;
  Reshard reshard_ = Reshard::kAfterForward;
  UnitActions actions_;
  std::vector<bool> asked_for_;  // by unit: there, or under way
  std::vector<std::size_t>
      forwards_;                   // by unit: forward passes whose backward pass is still to come
  std::size_t begun_ = 0;          // uses of the step that have begun
  std::vector<std::size_t> open_;  // those that are not over
};

}  // namespace ultra::zero
