#pragma once
/// @file
/// What predictions on machines that are not here have in common: flags, and what those refuse.

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::data_parallel {

// The command line --------------------------------------------------------------------------------

/// @brief Adds flags that set members of `options` to a group of --help.
/// @param each_flag  calls its argument for each with name, member, help and, for a word, its
/// choices, or, for a number, its limits.
template <class Options, class EachFlag>
void add_flags(CLI::App& app, const char* group, Options& options, const EachFlag& each_flag) {
  const train::Flags flags(app, group);
  each_flag([&](const char* flag, auto member, const char* help, const auto&... allowed) {
    auto& value = options.*member;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
      train::add_choice(app, flag, value, allowed..., group, help);
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

/// @brief One node of a machine, as --simulate reads it.
/// @param ranks  the flag with the numbers of ranks; its name + "-machine" describes the node.
/// @throws ConfigError for a machine that cannot be, and when it says how many nodes there are.
[[nodiscard]] collectives::Topology node_of(std::string_view ranks, const std::string& text);

// Values ------------------------------------------------------------------------------------------

/// @brief Checks a count.
/// @throws ConfigError naming the flag unless least <= value <= most.
void expect_between(std::string_view flag, std::size_t value, std::size_t least, std::size_t most);

/// @brief Checks a number that is finite and above 0.
/// @param unit  what the message writes behind it.
/// @throws ConfigError naming the flag for any other.
void expect_positive(std::string_view flag, double value, std::string_view unit = "");

/// @brief Checks a part of a peak, as the MFU is.
/// @throws ConfigError naming the flag unless 0 < value <= 1.
void expect_part(std::string_view flag, double value);

/// @brief What a list of numbers of ranks may hold.
struct RankNumbers {
  std::string_view flag;                       ///< that holds the list
  std::string_view example;                    ///< of one
  int most = std::numeric_limits<int>::max();  ///< the largest number; the least is 1
  std::string bounds;                          ///< in words: "there is at least 1 replica"
};

/// @brief Checks a list of numbers of ranks.
/// @throws ConfigError naming the flag when it is empty, does not ascend or leaves the bounds.
void expect_ascending(std::span<const int> numbers, const RankNumbers& allowed);

/// @brief Checks that a machine is one node.
/// @param ranks  as node_of() takes it.
/// @throws ConfigError for a torus, for more nodes, and for a machine that cannot be.
void expect_one_node(std::string_view ranks, const collectives::Topology& machine);

}  // namespace ultra::data_parallel
