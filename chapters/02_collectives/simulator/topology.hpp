#pragma once
/// @file
/// Topology: which links join the ranks, what a message costs on them, and which messages share one.
///
/// Two kinds of machine: nodes of GPUs, joined by a switch inside the node and by NICs between
/// nodes; or a torus, whose ranks have a link of their own to each neighbour and no switch at all.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/02_collectives/simulator/link_cost.hpp"
#include "common/replay/cluster/link.hpp"

namespace ultra::collectives {

/// @brief Most ranks that a topology describes.
inline constexpr int kMaxRanks = 4096;

/// @brief Where a message travels.
enum class LinkKind : std::uint8_t {
  kIntra,  ///< between GPUs of one node
  kInter,  ///< between nodes, through a NIC of each
  kTorus,  ///< between neighbours of a torus
};

/// Number of kinds, for arrays that hold one value for each.
inline constexpr std::size_t kLinkKinds = 3;

/// @brief "intra", "inter" or "torus".
[[nodiscard]] std::string_view to_string(LinkKind kind);

/// @brief How consecutive ranks are placed on nodes.
enum class RankOrder : std::uint8_t {
  kNatural,      ///< a node's ranks are consecutive: rank r runs on node r / gpus_per_node
  kInterleaved,  ///< neighbours run on different nodes: rank r runs on node r % nodes
};

/// @brief "natural" or "interleaved".
[[nodiscard]] std::string_view to_string(RankOrder order);

/// @brief The way of a message: what it costs, and the ports that it keeps busy.
///
/// A port is one end of a link in one direction; it carries one message at a time.
struct Route {
  LinkKind kind = LinkKind::kIntra;  ///< the links that it takes
  double alpha = 0.0;                ///< seconds that the message is on its way, apart from beta
  double beta = 0.0;                 ///< seconds per byte
  std::vector<int> ports;            ///< [0, Topology::port_count()), all busy for bytes * beta
};

/// @brief A machine: how many ranks, and which links join them.
struct Topology {
  int nodes = 1;                          ///< nodes; 1 for a torus
  int gpus_per_node = 8;                  ///< ranks per node
  replay::Link intra;                     ///< GPU to GPU in a node, or torus neighbours
  replay::Link inter;                     ///< one NIC
  int nics_per_node = 8;                  ///< at most one per GPU; fewer are shared
  double gamma = 0.0;                     ///< seconds per byte reduced
  RankOrder order = RankOrder::kNatural;  ///< where ranks run
  std::vector<int> torus;                 ///< its sizes, one to three; empty: no torus

  /// @brief Number of ranks.
  [[nodiscard]] int ranks() const { return nodes * gpus_per_node; }
  /// @brief True when the ranks form a torus. Rank 0, 1, 2, ... run along its last dimension.
  [[nodiscard]] bool is_torus() const { return !torus.empty(); }
  /// @brief The node that a rank runs on.
  [[nodiscard]] int node_of(int rank) const;
  /// @brief A rank's number among those of its node.
  [[nodiscard]] int local_rank_of(int rank) const;
  /// @brief The NIC that a rank sends and receives through, [0, nodes * nics_per_node).
  ///
  /// The GPUs of a node are dealt out evenly: with half as many NICs, two neighbours share one.
  [[nodiscard]] int nic_of(int rank) const;
  /// @brief A rank's place in the torus, one coordinate per dimension.
  [[nodiscard]] std::vector<int> coordinates_of(int rank) const;

  /// @brief Number of ports: of ranks, then of NICs; or of torus links.
  [[nodiscard]] int port_count() const;

  /// @brief The way from one rank to another.
  ///
  /// In a node: the sender's way out and the receiver's way in. Between nodes: the sending NIC and
  /// the receiving NIC; a GPU's own link to its NIC is never the narrowest part. On a torus: the
  /// links of all hops, one dimension after the other, the shorter way around; the message passes
  /// through without being stored, so it pays alpha per hop but beta once.
  /// @pre from != to
  [[nodiscard]] Route route(int from, int to) const;

  /// @brief alpha, beta and gamma of a message between neighbours by one kind of link.
  [[nodiscard]] LinkCost cost(LinkKind kind) const;

  /// @brief Checks that there is such a machine.
  /// @throws ConfigError naming the key, its value and what would work.
  void validate() const;

  /// @brief "64 nodes x 8 GPUs = 512 ranks; 370 GB/s, 3.4 us in a node; ...".
  [[nodiscard]] std::string describe() const;

  bool operator==(const Topology&) const = default;
};

/// @brief A machine with published figures.
struct TopologyPreset {
  std::string_view name;         ///< what --simulate takes
  std::string_view description;  ///< one line
  std::string_view source;       ///< where its numbers come from
  Topology topology;             ///< one node of it
};

/// @brief All presets; the first is the default.
[[nodiscard]] std::span<const TopologyPreset> topology_presets();

/// @brief Reads "h100,nodes=64,order=interleaved": a preset (may be left out) and changes to it.
///
/// Keys: nodes, gpus, nics (per node); intra-gb-per-second and inter-gb-per-second (10^9 bytes per
/// second in one direction) or intra-gbps and inter-gbps (10^9 bits); intra-us, inter-us
/// (microseconds); gamma (seconds per byte); order (natural or interleaved); torus (4x4 or 4x4x4;
/// its links are the intra ones).
/// @throws ConfigError for an unknown preset or key (with those that exist), a key given twice, or
/// a value that cannot be.
[[nodiscard]] Topology parse_topology(std::string_view text);

}  // namespace ultra::collectives
