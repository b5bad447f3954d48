#pragma once
/// @file
/// Which links the groups of an axis cross, by where consecutive ranks run.
///
/// Exercise 11.5 (`./workbook check 11.5`). Body: solutions/11_five_d/rank_placement.cpp.

#include <cstddef>

#include "chapters/11_five_d/planner/layout/layout.hpp"
#include "common/replay/cluster/placement.hpp"

namespace ultra::planner {

/// @brief The axes along which ranks form groups.
enum class PlanAxis : std::uint8_t {
  kTensor,    ///< tp: shares matrices
  kContext,   ///< cp: shares sequences
  kPipeline,  ///< pp: follows each other
  kData,      ///< dp times cp: adds up gradients
  kExpert,    ///< ep: exchanges tokens
};

/// @brief Ranks from one member of an axis's group to the next.
///
/// tp is fastest, then cp; behind them dp and pp, in the order that Layout::outermost says. The
/// groups of kData and of kExpert begin with cp: where both dp and cp are above 1 and dp is
/// outermost, the steps differ, and this is the one from replica to replica.
[[nodiscard]] std::size_t stride_of(const Layout& layout, PlanAxis axis);

/// @brief Where the groups of an axis are, when rank r runs on node r / gpus_per_node.
///
/// Of an axis whose groups are not all alike (nodes that do not divide), the worst.
/// Cost: a plan asks for several axes of each of thousands of layouts. Going through all ranks each
/// time is right, and makes a plan for 16,384 GPUs very slow.
/// Source: Narayanan et al. 2021, arXiv 2104.04473, section 3.2 (tp stays inside the node).
[[nodiscard]] replay::GroupPlacement placement_of(const Layout& layout, PlanAxis axis,
                                                  std::size_t gpus_per_node);

}  // namespace ultra::planner
