#pragma once
/// @file
/// Exported options as their programs read them.

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ultra::test {

/// @brief Each flag, and the words behind it.
using Options = std::map<std::string, std::vector<std::string>>;

/// @brief Words of a shell; a remark is a comment.
inline Options parsed_options(const std::string& text) {
  Options options;
  std::istringstream lines(text);
  std::string flag;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == "\\") continue;
      if (word.starts_with("--")) {
        flag = word;
        options[flag];
      } else {
        options[flag].push_back(word);
      }
    }
  }
  return options;
}

}  // namespace ultra::test
