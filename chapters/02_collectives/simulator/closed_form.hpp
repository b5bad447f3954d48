#pragma once
/// @file
/// What stands beside the simulator's times: the closed form of an algorithm of the table, where it has one on a
/// machine, and bandwidths that others have measured.

#include <optional>
#include <span>
#include <string_view>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/base/json.hpp"
#include "common/comm/engine/operation.hpp"

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

/// @brief One published figure.
struct PublishedBandwidth {
  std::string_view machine;  ///< of what
  std::string_view what;     ///< which figure: "bus bandwidth", "line rate", "median", ...
  OpKind op;                 ///< of which operation; kSend for a line rate
  int nodes;                 ///< that took part
  int gpus_per_node;         ///< of each
  double gb_per_second;      ///< 10^9 bytes per second
  std::string_view source;   ///< who says so
};

/// @brief All figures of this chapter.
[[nodiscard]] std::span<const PublishedBandwidth> published_bandwidths();

/// @brief The same as a JSON array of objects with the members' names.
[[nodiscard]] Json published_to_json();

}  // namespace ultra::collectives
