#pragma once
/// @file
/// Rows of tables that programs print.

#include <sstream>
#include <string>

namespace ultra::test {

/// @brief The line of the table whose first word is `name`, its spaces squeezed.
[[nodiscard]] inline std::string row(const std::string& table, const std::string& name) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string result;
    for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
    if (result.starts_with(name)) return result;
  }
  return "no row " + name;
}

}  // namespace ultra::test
