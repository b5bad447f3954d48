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

/// @brief The number of the layout that is never far from the best, where the cluster is not the same
/// every day: a network that others use, too, or GPUs that grow hot.
///
/// What a layout loses on a cluster is the part of the best one's tokens per second and GPU that it
/// does not reach there. The layout whose greatest loss is the smallest wins; of equal ones the first.
/// One that is impossible or does not fit on any of the clusters never does.
/// @param days  the same work on each cluster; at least one.
/// @throws ConfigError when no layout can be on all clusters; what choose_layout() throws where none
/// can be on one.
[[nodiscard]] std::size_t choose_for_all(std::span<const Question> days,
                                         std::span<const Layout> layouts);

}  // namespace ultra::planner
