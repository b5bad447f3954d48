#pragma once
/// @file
/// What tables of ranks on machines that are not here refuse.

#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/train/options/question_flags.hpp"

namespace ultra::data_parallel {

using train::add_flags;
using train::expect_defaults;
using train::numbers_of;

/// @brief One node of a machine, as --simulate reads it.
/// @param ranks  the flag with the numbers of ranks; its name + "-machine" describes the node.
/// @throws ConfigError for a machine that cannot be, and when it says how many nodes there are.
[[nodiscard]] collectives::Topology node_of(std::string_view ranks, const std::string& text);

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

}  // namespace ultra::data_parallel
