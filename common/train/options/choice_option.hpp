#pragma once
/// @file
/// A command-line option whose value is one of a few words.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {

/// @brief A word of the command line and what it means.
template <class T>
using Choice = std::pair<std::string_view, T>;

/// @brief The meaning of a word.
/// @throws ConfigError with the flag, the word that was found and those there are.
template <class T>
[[nodiscard]] T parse_choice(std::string_view flag, std::string_view word,
                             const std::vector<Choice<T>>& choices) {
  const auto found = std::ranges::find(choices, word, &Choice<T>::first);
  if (found != choices.end()) return found->second;
  std::vector<std::string_view> words;
  for (const Choice<T>& choice : choices) words.push_back(choice.first);
  const std::string_view last = words.back();
  words.pop_back();
  throw ConfigError(fmt::format("{} is {}. It must be {} or {}.", flag, in_quotes(word),
                                fmt::join(words, ", "), last));
}

/// @brief Adds an option that sets `value`, whose word now is the default.
/// @param choices  at least two.
template <class T>
void add_choice(CLI::App& app, const char* flag, T& value, std::vector<Choice<T>> choices,
                const char* group, const char* help) {
  const auto now = std::ranges::find(choices, value, &Choice<T>::second);
  ensure(now != choices.end(), "the default is one of the choices");
  const std::string word(now->first);
  Flags(app, group)
      .add_parsed(
          flag,
          [flag, choices = std::move(choices), &value](const std::string& text) {
            value = parse_choice(flag, text, choices);
          },
          help, word);
}

}  // namespace ultra::train
