#pragma once
/// @file
/// What the flags of predictions on machines that are not here have in common.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::data_parallel {

/// @brief "1,2,4" as numbers.
/// @param flag     for messages.
/// @param example  of such a list.
/// @throws ConfigError for what is not a whole number, and for more than 100 of them.
template <class Number>
[[nodiscard]] std::vector<Number> numbers_of(std::string_view flag, const std::string& text,
                                             std::string_view example) {
  constexpr std::size_t kMost = 100;
  std::vector<Number> numbers;
  for (const std::string_view part : split(text, ',')) {
    const auto number = parse_number<Number>(part);
    if (!number) {
      throw ConfigError(fmt::format("{} {}: '{}' is not a whole number. Write for example {}.",
                                    flag, text, part, example));
    }
    numbers.push_back(*number);
  }
  if (numbers.size() > kMost) {
    throw ConfigError(
        fmt::format("{} has {} numbers. It must have at most {}.", flag, numbers.size(), kMost));
  }
  return numbers;
}

/// @brief What fn returns; its message names this flag instead of the one that it belongs to elsewhere.
/// @param elsewhere  what the message begins with otherwise; may be empty.
template <class Fn>
auto under_flag(std::string_view flag, std::string_view elsewhere, Fn&& fn) {
  try {
    return fn();
  } catch (const ConfigError& error) {
    std::string_view what = error.what();
    if (what.starts_with(elsewhere)) what.remove_prefix(elsewhere.size());
    const bool sentence = what.starts_with(' ') || what.starts_with(':');
    throw ConfigError(fmt::format("{}{}{}", flag, sentence ? "" : ": ", what));
  }
}

/// @brief One node of a machine, as --simulate reads it.
/// @param flag   that describes it.
/// @param ranks  the flag that says how many nodes there are.
/// @throws ConfigError for a machine that cannot be, and when it says how many nodes there are.
[[nodiscard]] inline collectives::Topology node_of(std::string_view flag, std::string_view ranks,
                                                   const std::string& text) {
  for (const std::string_view entry : split(text, ',')) {
    if (entry.starts_with("nodes=")) {
      throw ConfigError(fmt::format("{} {}: leave out '{}'. {} says how many nodes there are.",
                                    flag, text, entry, ranks));
    }
  }
  return under_flag(flag, "--simulate", [&] { return collectives::parse_topology(text); });
}

}  // namespace ultra::data_parallel
