#pragma once
/// @file
/// Options as a command line sets them.

#include <functional>
#include <string>
#include <vector>

#include "common/train/options/cli_fwd.hpp"

namespace ultra::test {

/// @brief Reads a command line as an executable with these flags does.
/// @throws FlagError, and what the options' own parsers throw.
void parse_flags(const std::function<void(CLI::App&)>& add_flags,
                 const std::vector<std::string>& arguments);

/// @brief The --help of an executable with these flags.
[[nodiscard]] std::string help_of(const std::function<void(CLI::App&)>& add_flags);

/// @brief Reads a command line into one or several sets of options, as one executable does.
/// @throws FlagError, and what the options' own parsers throw.
template <class... Options>
void parse_into(const std::vector<std::string>& arguments, Options&... options) {
  parse_flags([&](CLI::App& app) { (options.add_to(app), ...); }, arguments);
}

/// @brief The options that a command line sets.
template <class Options>
[[nodiscard]] Options parsed(const std::vector<std::string>& arguments) {
  Options options;
  parse_into(arguments, options);
  return options;
}

}  // namespace ultra::test
