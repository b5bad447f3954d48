#pragma once
/// @file
/// Options as a command line sets them.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ultra::test {

/// @brief Reads a command line into one or several sets of options, as one executable does.
/// @throws what CLI11 and the options' own parsers throw.
template <class... Options>
void parse_into(const std::vector<std::string>& arguments, Options&... options) {
  CLI::App app;
  (options.add_to(app), ...);
  app.parse(
      std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // it wants the last first
}

/// @brief The options that a command line sets.
template <class Options>
[[nodiscard]] Options parsed(const std::vector<std::string>& arguments) {
  Options options;
  parse_into(arguments, options);
  return options;
}

}  // namespace ultra::test
