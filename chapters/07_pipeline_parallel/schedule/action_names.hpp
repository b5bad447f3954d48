#pragma once
/// @file
/// The letters that name actions: in schedules as text, and in the files of what has run.

#include <array>
#include <optional>
#include <string_view>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief A kind of action and its letters.
struct ActionName {
  train::ActionKind kind;    ///< which
  std::string_view letters;  ///< as train::Action::str() writes them
};

/// All kinds.
inline constexpr std::array kActionNames = {ActionName{train::ActionKind::kForward, "F"},
                                            ActionName{train::ActionKind::kBackward, "BW"},
                                            ActionName{train::ActionKind::kBackwardInput, "B"},
                                            ActionName{train::ActionKind::kBackwardWeight, "W"},
                                            ActionName{train::ActionKind::kUpdate, "U"}};

/// @brief The letters of a kind.
[[nodiscard]] std::string_view letters_of(train::ActionKind kind);
/// @brief The kind that letters name; nothing when they name none.
[[nodiscard]] std::optional<train::ActionKind> kind_of(std::string_view letters);

}  // namespace ultra::pipeline_parallel
