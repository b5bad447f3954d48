// Exercise 11.5: ranks on nodes.
//
// Goal:        find out which groups cross nodes.
// Length:      about 60 lines
// Difficulty:  hard
// Check:       ./workbook check 11.5
// Hints:       ./workbook hint 11.5
// Targets:     the step from member to member along every axis, in both orders; the most ranks on
//              one node; the most nodes of a group, where nodes do not divide too
//
// chapters/11_five_d/planner/rank_placement.hpp declares the functions. To count rank by rank passes
// the check; then a plan for thousands of GPUs (--mine --plan) takes very long, for it asks you of
// every layout.
#include "chapters/11_five_d/planner/rank_placement.hpp"

#include "common/base/errors.hpp"

namespace ultra::planner {

// TODO 1: ranks from one member of a group to the next.
std::size_t stride_of([[maybe_unused]] const Layout& layout, [[maybe_unused]] PlanAxis axis) {
  throw NotWritten("11.5 rank_placement");
}

// TODO 2: the nodes that the groups of an axis are on.
replay::GroupPlacement placement_of([[maybe_unused]] const Layout& layout,
                                    [[maybe_unused]] PlanAxis axis,
                                    [[maybe_unused]] std::size_t gpus_per_node) {
  throw NotWritten("11.5 rank_placement");
}

}  // namespace ultra::planner
