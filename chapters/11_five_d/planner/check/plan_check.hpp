#pragma once
/// @file
/// A plan held against the program: its best layouts, each recorded and priced on the same machine.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief One layout of a plan, as planned and as recorded.
struct CheckedLayout {
  Prediction planned;           ///< by closed forms, for the plan's software
  double recorded_seconds = 0;  ///< of a step of this program; meaningless with a refusal
  double recorded_bytes = 0;    ///< of the fullest recorded rank, likewise
  std::string refusal;          ///< why there is no such record; else empty
};

/// @brief Records a step of this program for each of the first layouts.
/// @param cluster  as --on takes it.
/// @throws ConfigError for a model whose blocks this program does not have.
[[nodiscard]] std::vector<CheckedLayout> check_plan(const Question& question,
                                                    const std::vector<Prediction>& best,
                                                    std::size_t count, const std::string& cluster);

/// @brief Both times, both memories and their ratios, a line for each layout.
[[nodiscard]] std::string check_to_text(const std::vector<CheckedLayout>& checked);
/// @brief The same: [{"layout", "planned_seconds", "recorded_seconds", ...}].
[[nodiscard]] Json check_to_json(const std::vector<CheckedLayout>& checked);

}  // namespace ultra::planner
