#pragma once
/// @file
/// ActionLog: when a rank's actions took place, and how many micro-batches it held.

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief An action that has taken place.
struct ExecutedAction {
  /// What moments are measured with.
  using Clock = std::chrono::steady_clock;

  train::Action action;     ///< which
  Clock::time_point begin;  ///< when its input was there
  Clock::time_point end;    ///< when its output was
};

/// @brief Micro-batches that a rank holds at a time, over all its chunks.
struct LivePeaks {
  std::size_t activations =
      0;                   ///< those between their forward pass and the gradients of the weights
  std::size_t inputs = 0;  ///< those between their forward pass and the gradient of the input
};

/// @brief Follows the actions of one rank, step by step; used by its own thread only.
class ActionLog {
 public:
  /// What moments are measured with.
  using Clock = ExecutedAction::Clock;

  /// @brief A step begins: forgets the actions of the one before, keeps their times.
  void step_begins();
  /// @brief An action begins.
  void action_begins(const train::Action& action);
  /// @brief What it needs from other ranks has come.
  void input_is_here();
  /// @brief Seconds from where the action under way began to where its input was there.
  [[nodiscard]] double waited_for_input() const { return waited_for_input_; }
  /// @brief What it gives to other ranks is in memory.
  void output_is_made() { end_ = Clock::now(); }
  /// @brief That action has ended.
  /// @param waited  seconds that the rank's thread waited after its input was there: no work.
  void action_ends(double waited);

  /// @brief The actions of the step, in their order.
  [[nodiscard]] const std::vector<ExecutedAction>& actions() const { return actions_; }
  /// @brief The highest numbers so far, over all steps.
  [[nodiscard]] const LivePeaks& peaks() const { return peaks_; }
  /// @brief Mean seconds of work of an action of that kind on a chunk, the first step left out when
  /// there are others; 0 when there was none.
  [[nodiscard]] double seconds(train::ActionKind kind, std::size_t chunk) const;

 private:
  struct Sum {
    double seconds = 0;
    std::size_t count = 0;
  };
  void count(const train::Action& action);

  std::size_t step_ = 0;
  train::Action action_;
  Clock::time_point begin_;
  std::optional<Clock::time_point> end_;
  double waited_for_input_ = 0;
  std::vector<ExecutedAction> actions_;
  std::size_t with_activations_ = 0;
  std::size_t with_inputs_ = 0;
  LivePeaks peaks_;
  std::map<std::pair<train::ActionKind, std::size_t>, std::array<Sum, 2>>
      sums_;  // first step, later
};

}  // namespace ultra::pipeline_parallel
