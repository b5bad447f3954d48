#pragma once
/// @file
/// SimulatedStep: when every action of a schedule would run, and what that says of it.

#include <cstddef>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/messages.hpp"

namespace ultra::pipeline_parallel {

/// @brief An action with its time.
struct TimedAction {
  train::Action action;  ///< what
  std::size_t part = 0;  ///< of the model
  double begin = 0;      ///< seconds since the step began
  double end = 0;        ///< seconds; the same for two that overlap
};

/// @brief A message with its time.
struct TimedMessage {
  Message message;       ///< what
  std::size_t from = 0;  ///< stage
  std::size_t to = 0;    ///< stage
  double begin = 0;      ///< seconds: made, asked for, and the link is free
  double left = 0;       ///< seconds: the link is free again
  double end = 0;        ///< seconds: arrived
};

/// @brief What one rank does in a step.
struct SimulatedRank {
  std::vector<TimedAction> actions;  ///< in their order
  double busy = 0;                   ///< seconds of its actions
  std::size_t peak_live = 0;         ///< activations, see peak_live_activations()
  double peak_bytes = 0;             ///< of activations

  /// @brief Seconds from the beginning of its first action to the end of its last.
  [[nodiscard]] double span() const {
    return actions.empty() ? 0 : actions.back().end - actions.front().begin;
  }
};

/// @brief A step of all ranks.
struct SimulatedStep {
  std::vector<SimulatedRank> ranks;    ///< by stage
  std::vector<TimedMessage> messages;  ///< in the order of their arrival on each link

  /// @brief Seconds from the beginning of the first action to the end of the last: a step that ends
  /// in something that all ranks wait for.
  [[nodiscard]] double seconds() const;
  /// @brief Seconds of the rank that takes longest: steps that follow each other without a common
  /// end.
  /// Source: Qi et al. 2023, arXiv 2401.10241, section 5.1, which counts bubbles so.
  [[nodiscard]] double longest_span() const;
  /// @brief Seconds that the average rank is busy.
  [[nodiscard]] double ideal() const;
  /// @brief r: bubble over ideal time.
  [[nodiscard]] double bubble_over_ideal() const { return seconds() / ideal() - 1; }
  /// @brief f: bubble over the whole time.
  [[nodiscard]] double bubble_over_total() const { return 1 - ideal() / seconds(); }
};

}  // namespace ultra::pipeline_parallel
