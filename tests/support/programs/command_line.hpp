#pragma once
/// @file
/// Command lines in one string, and tables of those that are refused.

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/programs/parse_options.hpp"

namespace ultra::test {

using Words = std::vector<std::string>;

/// @brief The words of a command line, which stand between spaces; '' is an empty one.
[[nodiscard]] inline Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word == "''" ? "" : word);
  return words;
}

/// @brief Words, then more of them.
[[nodiscard]] inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// @brief A command line that is refused, and what its message has in it.
struct Refusal {
  std::string line;
  Words parts;
};

/// @brief All parts are in the message.
inline void expect_parts(const std::string& message, const Words& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos)
        << "the message: " << message << "\nhas no '" << part << "'";
  }
}

/// @brief Each row's command line makes `read` throw an E with all its parts in the message.
/// @param read  is called with the words.
template <class E, class Read>
void expect_refused(const Read& read, const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    SCOPED_TRACE(row.line);
    expect_parts(message_of<E>([&] { read(words_of(row.line)); }), row.parts);
  }
}

/// @brief The options that a command line sets.
template <class Options>
[[nodiscard]] Options options_of(const std::string& line) {
  return parsed<Options>(words_of(line));
}

/// @brief The same; what was read is valid.
template <class Options>
[[nodiscard]] Options valid(const std::string& line) {
  const auto options = options_of<Options>(line);
  EXPECT_NO_THROW(options.validate()) << line;
  return options;
}

/// @brief Each row's command line cannot be read, is not valid, or does not pass `use`.
template <class Options>
void expect_refused(
    const std::vector<Refusal>& rows,
    const std::function<void(const Options&)>& use = [](const Options& o) { o.validate(); }) {
  expect_refused<ConfigError>([&](const Words& words) { use(parsed<Options>(words)); }, rows);
}

}  // namespace ultra::test
