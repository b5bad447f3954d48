#pragma once
/// @file
/// The choice among layouts, by prediction.
///
/// Exercise 11.4 (`./workbook check 11.4`). Body: solutions/11_five_d/choose_layout.cpp.

#include <cstddef>
#include <span>

#include "chapters/11_five_d/planner/time/prediction.hpp"

namespace ultra::planner {

/// @brief The number of the layout that trains fastest on a cluster, among those that are possible
/// (why_impossible) and fit into its GPUs' memory.
///
/// Layouts may be of different numbers of GPUs: the one with most tokens per second and GPU wins. Of
/// equal ones the first.
/// @throws ConfigError when there is none, with each layout and why it cannot be.
[[nodiscard]] std::size_t choose_layout(const Question& question, std::span<const Layout> layouts);

}  // namespace ultra::planner
