#pragma once
/// @file
/// Prefetch: which unit's weights are gathered and released when, along the passes of a micro-batch.
///
/// A unit that is gathered when it is needed makes the rank wait for the link. So the next units are
/// gathered while this one computes: the same order, earlier.
///
/// Exercise 04.5 (`./workbook check 04.5`).
/// Source: Zhao et al. 2023, "PyTorch FSDP", arXiv 2304.11277, sections 3.3.2 and 3.3.3.

#include <cstddef>
#include <functional>
#include <vector>

namespace ultra::zero {

/// @brief What becomes of a unit between its forward and its backward pass.
enum class Reshard {
  kAfterForward,   ///< released, and gathered again (FULL_SHARD, ZeRO-3)
  kAfterBackward,  ///< kept: memory for one gather less (SHARD_GRAD_OP)
};

/// @brief How units are gathered and released; called with the number of a unit.
struct UnitActions {
  std::function<void(std::size_t)> start_gather;  ///< begins to gather
  std::function<void(std::size_t)> wait;          ///< returns when it is there
  std::function<void(std::size_t)> release;       ///< lets go of it
};

/// @brief Follows the passes of a micro-batch through the units and calls the actions.
///
/// The units are used in the order 0, 1, ..., U-1 (forward), U-1, ..., 1, 0 (backward): 2 U uses. When a
/// use begins, the units of the next `ahead` uses have been asked for, in their order; a unit that is
/// there, or under way, is not asked for again.
///
/// A unit whose forward pass runs again within the backward pass (recomputation) stays until its
/// backward pass is over.
class Prefetch {
 public:
  /// @brief Nothing is gathered.
  /// @param units  U, at least 1.
  /// @param ahead  uses to look ahead; 0 gathers each unit when it is needed.
  Prefetch(std::size_t units, std::size_t ahead, Reshard reshard, UnitActions actions);

  /// @brief A unit runs forward next: it is there when this returns.
  void before_forward(std::size_t unit);
  /// @brief A unit has run forward: it is released, unless it stays.
  void after_forward(std::size_t unit);
  /// @brief A unit runs backward next: it is there when this returns.
  void before_backward(std::size_t unit);
  /// @brief A unit has run backward: it is released.
  void after_backward(std::size_t unit);

 private:
  /// The unit of a use: 0 to 2 U - 1.
  [[nodiscard]] std::size_t unit_of(std::size_t use) const;
  /// Asks for the units of a use and of those ahead of it, and waits for the first.
  void begin_use(std::size_t use);
  void release(std::size_t unit);

  std::size_t units_;
  std::size_t ahead_;
  Reshard reshard_;
  UnitActions actions_;
  std::vector<bool> asked_for_;  // by unit: there, or under way
  bool backward_ = false;        // the backward pass of the micro-batch has begun
};

}  // namespace ultra::zero
