#pragma once
/// @file
/// The table of published steps beside the planner's predictions.

#include <string>
#include <vector>

#include "chapters/11_five_d/planner/published/published_rows.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief The table as Markdown: every row with predicted, published and ratio, medians by group, the
/// constants, and the rows that are far off with why.
[[nodiscard]] std::string published_to_markdown(const std::vector<ComparedRow>& rows);

/// @brief The same as JSON: {"rows": [...], "groups": [...], "median_error": ...}.
[[nodiscard]] Json published_to_json(const std::vector<ComparedRow>& rows);

/// @brief All rows of a file, compared.
/// @throws FileError as read_published_rows(); Interrupted when the program is told to stop.
[[nodiscard]] std::vector<ComparedRow> compare_all(const std::string& path);

}  // namespace ultra::planner
