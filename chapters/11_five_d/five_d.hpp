#pragma once
/// @file
/// Every technique of the book in one list: training in five dimensions. And which flags do not go
/// together, and why, as each technique says it.

#include <memory>
#include <string>
#include <vector>

#include "common/base/json.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/cli/technique.hpp"

/// @brief Chapter 11: all techniques together.
namespace ultra::five_d {

/// @brief The techniques of all chapters, in the order of the book.
[[nodiscard]] train::Techniques techniques();

/// @brief What the techniques of a program say they do not go together with: the same rows that
/// refuse a training.
[[nodiscard]] std::vector<train::Conflict> conflicts_of(const train::Setup& setup);

/// @brief The rows as a table for the terminal; a reason that several have is given once.
[[nodiscard]] std::string format_combinations(const std::vector<train::Conflict>& conflicts);

/// @brief The rows as JSON: [{"first": "--compress", "second": "--zero 1, 2 or 3", "reason": "..."}].
[[nodiscard]] Json combinations_to_json(const std::vector<train::Conflict>& conflicts);

/// @brief The flags --combinations and --combinations-json as a technique.
[[nodiscard]] std::unique_ptr<train::Technique> combinations();

}  // namespace ultra::five_d
