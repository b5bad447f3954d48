#pragma once
/// @file
/// Schedules as texts.

#include <stdexcept>
#include <string>

#include "common/train/step_schedule.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::test {

/// @brief The action that train::Action::str() writes so.
[[nodiscard]] inline train::Action action_of(const std::string& text) {
  using enum train::ActionKind;
  for (const train::ActionKind kind :
       {kForward, kBackward, kBackwardInput, kBackwardWeight, kUpdate}) {
    for (std::size_t micro_batch = 0; micro_batch < 10; ++micro_batch) {
      for (std::size_t chunk = 0; chunk < 4; ++chunk) {
        const train::Action action{.kind = kind, .micro_batch = micro_batch, .chunk = chunk};
        if (action.str() == text) return action;
      }
    }
  }
  throw std::invalid_argument("no action is called " + text);
}

/// @brief Actions, separated by spaces: "F0 BW0 F1.1".
[[nodiscard]] inline train::StepSchedule schedule_of(const std::string& text) {
  train::StepSchedule schedule;
  for (const std::string& word : words_of(text)) schedule.push_back(action_of(word));
  return schedule;
}

}  // namespace ultra::test
