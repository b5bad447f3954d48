#pragma once
/// @file
/// StepSchedule: what a rank does in a step, as data.
///
/// Gradient accumulation is the schedule of one stage: F0 B0 F1 B1 ... Pipelines bring others. One
/// loop runs them all: run_schedule() of step.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ultra::train {

/// @brief What one action does.
enum class ActionKind : std::uint8_t {
  kForward,         ///< F: the forward pass, and the loss after a head
  kBackward,        ///< B and W: the whole backward pass
  kBackwardInput,   ///< B: the gradient of the chunk's input; those of its weights wait
  kBackwardWeight,  ///< W: the gradients of the weights that waited
  kUpdate,          ///< U: the optimizer's step with the gradients that this micro-batch has made
};

/// @brief One pass of a micro-batch through a chunk: a part of the model that this rank has.
struct Action {
  ActionKind kind = ActionKind::kForward;  ///< which pass
  std::size_t micro_batch = 0;             ///< of the step
  std::size_t chunk = 0;                   ///< of this rank

  /// @brief "F0", "B3", "W1", "U2"; with a chunk other than the first "F0.1". A whole backward pass
  /// is "BW0".
  [[nodiscard]] std::string str() const;
  /// @brief Whether gradients of weights are made.
  [[nodiscard]] bool makes_gradients() const {
    return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
  }
  bool operator==(const Action&) const = default;
};

/// A rank's actions of a step, in their order.
using StepSchedule = std::vector<Action>;

/// @brief The forward passes of a schedule, in their order.
[[nodiscard]] StepSchedule forwards_of(const StepSchedule& schedule);

/// @brief Whether weights are updated between passes, and not once when all are over.
[[nodiscard]] bool updates_between(std::span<const Action> schedule);

/// @brief Checks that every micro-batch passes every chunk forward and then backward, once; and
/// that each of them, or none, ends in an update.
/// @throws InternalError that names the action that is missing, out of order or there twice.
void expect_complete(std::span<const Action> schedule, std::size_t micro_batches,
                     std::size_t chunks);

}  // namespace ultra::train
