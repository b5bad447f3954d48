#pragma once
/// @file
/// Command lines of the executable 01_memory.

#include <map>
#include <string>
#include <vector>

#include "tests/support/short_run.hpp"

namespace ultra::memory::test {

/// @brief The flags of a run of some milliseconds, with other values where `changes` gives them.
/// @param more  words added at the end.
inline std::vector<std::string> flags(const std::map<std::string, std::string>& changes = {},
                                      const std::vector<std::string>& more = {}) {
  std::map<std::string, std::string> values = {
      {"--layers", "2"},      {"--hidden", "16"},
      {"--heads", "4"},       {"--kv-heads", "2"},
      {"--ffn", "24"},        {"--seq", "16"},
      {"--steps", "1"},       {"--global-batch", "4"},
      {"--micro-batch", "2"}, {"--data", ultra::test::kText}};
  for (const auto& [flag, value] : changes) values[flag] = value;
  std::vector<std::string> words;
  for (const auto& [flag, value] : values) {
    words.push_back(flag);
    words.push_back(value);
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace ultra::memory::test
