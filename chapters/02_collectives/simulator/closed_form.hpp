#pragma once
/// @file
/// The closed form of an algorithm of the table, where it has one on a machine.

#include <optional>
#include <string_view>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "chapters/02_collectives/simulator/topology.hpp"

namespace ultra::collectives {

/// @brief What the algorithm costs on all ranks of the machine, exactly for sizes that divide.
///
/// Most algorithms have one where all links are equal: on one node, or with one GPU per node. The
/// two-level all-reduce also has one for nodes whose GPUs have a NIC each, and torus algorithms on a
/// torus of their shape. None for those whose messages share links or follow each other in segments.
/// @param name    of algorithms(op).
/// @param tuning  ranks_per_node and grid, as the algorithm gets them.
[[nodiscard]] std::optional<CollectiveCost> closed_form(OpKind op, std::string_view name,
                                                        const Topology& topology,
                                                        const Tuning& tuning);

/// @brief The dials with which an algorithm fits a machine: its nodes, or its torus as the grid.
[[nodiscard]] Tuning tuning_for(std::string_view name, const Topology& topology);

}  // namespace ultra::collectives
