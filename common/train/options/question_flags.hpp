#pragma once
/// @file
/// Flags that have a meaning only with a question: with the flag that asks for something instead of
/// training.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {

/// @brief Adds flags that set members of `options` to a group of --help.
/// @param each_flag  calls its argument for each with name, member, help and, for a word, its
/// choices, or, for a number, its limits.
template <class Options, class EachFlag>
void add_flags(CLI::App& app, const char* group, Options& options, const EachFlag& each_flag) {
  const Flags flags(app, group);
  each_flag([&](const char* flag, auto member, const char* help, const auto&... allowed) {
    auto& value = options.*member;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
      add_choice(app, flag, value, allowed..., group, help);
    } else if constexpr (std::is_same_v<decltype(value), bool&>) {
      flags.add_switch(flag, value, help);
    } else {
      flags.add(flag, value, help, allowed...);
    }
  });
}

/// @brief Checks that all members that flags set have their defaults.
/// @param needed  what those flags have no meaning without.
/// @throws ConfigError naming the first flag that is not at its default.
template <class Options, class EachFlag>
void expect_defaults(const Options& options, const EachFlag& each_flag, std::string_view needed) {
  const Options defaults;
  each_flag([&](const char* flag, auto member, const auto&... /*help, allowed*/) {
    if (options.*member != defaults.*member) {
      throw ConfigError(fmt::format("{} needs {}.", flag, needed));
    }
  });
}

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
      throw ConfigError(fmt::format("{} {}: {} is not a whole number. Write for example {}.", flag,
                                    in_quotes(text), in_quotes(part), example));
    }
    numbers.push_back(*number);
  }
  if (numbers.size() > kMost) {
    throw ConfigError(
        fmt::format("{} has {} numbers. It must have at most {}.", flag, numbers.size(), kMost));
  }
  return numbers;
}

/// @brief Checks a count.
/// @throws ConfigError naming the flag unless least <= value <= most.
void expect_between(std::string_view flag, std::size_t value, std::size_t least, std::size_t most);

}  // namespace ultra::train
