#pragma once
/// @file
/// A plan for people, and as JSON.

#include <string>

#include "chapters/11_five_d/planner/search/reasons.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief The ten fastest layouts, the reasons of the first, its flags and its exported options.
/// @throws ConfigError when no layout fits, with the one that lacks least and what would help.
[[nodiscard]] std::string format_plan(const Question& question, const SearchSpace& space,
                                      const SearchResult& result);

/// @brief The same as JSON.
///
/// {"question": {...}, "layouts": [{"layout", "dp", ..., "step_seconds", "mfu", "memory", "time"}],
/// "steps": {...}, "recipes": [...], "what_if": [...], "export": {...}}.
/// @throws ConfigError as format_plan().
[[nodiscard]] Json plan_to_json(const Question& question, const SearchSpace& space,
                                const SearchResult& result);

/// @brief One prediction as JSON: the layout's members, seconds by parts, bytes by parts.
[[nodiscard]] Json prediction_to_json(const Prediction& prediction);

}  // namespace ultra::planner
