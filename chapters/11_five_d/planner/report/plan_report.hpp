#pragma once
/// @file
/// A plan for people, and as JSON.

#include <cstddef>
#include <string>

#include "chapters/11_five_d/planner/search/reasons.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief The fastest layouts with their bytes and flags, the reasons of the first, and the options for
/// other programs of one of them.
/// @param exported  which one's options: 1 is the fastest.
/// @throws ConfigError when no layout fits, with the one that lacks least and what would help; when
/// there is no such one to export.
[[nodiscard]] std::string format_plan(const Question& question, const SearchSpace& space,
                                      const SearchResult& result, std::size_t exported);

/// @brief The same as JSON.
///
/// {"layouts": [{"layout", "dp", ..., "step_seconds", "mfu", "memory", "time", "flags"}],
/// "steps": {...}, "recipes": [...], "what_if": [...], "export": {...}}.
/// @throws ConfigError as format_plan().
[[nodiscard]] Json plan_to_json(const Question& question, const SearchSpace& space,
                                const SearchResult& result, std::size_t exported);

/// @brief One prediction as JSON: the layout's members, seconds by parts, bytes by parts.
[[nodiscard]] Json prediction_to_json(const Prediction& prediction);

}  // namespace ultra::planner
