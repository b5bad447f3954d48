#pragma once
/// @file
/// What a dispatch of tokens to experts costs on a machine that is not here: directly, on two
/// levels, and with experts on a few nodes only.
///
/// Legend: n tokens per rank; E experts, evenly dealt out to P ranks of m nodes; k chosen; M nodes
/// at most for a token's choices.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/comm/collectives/schedule.hpp"

namespace ultra::expert_parallel {

/// @brief All-to-all on two levels, inside the node and then between nodes: chunk j of the input becomes
/// chunk (own position) of member j's data, as in collectives::pairwise_all_to_all.
///
/// Directly, a rank sends P - 1 messages, most of them small ones to other nodes. On two levels the
/// ranks of a node first gather, rank j of the node, what is for the ranks j of all nodes; then
/// each sends one message to each other node.
/// Source: Rajbhandari et al. 2022, "DeepSpeed-MoE", arXiv 2201.05596, section 5.2; Hwang et al.
/// 2022, "Tutel", arXiv 2206.03382, section 3.4.
///
/// Legend: P ranks, g of them in a node, m = P / g nodes.
/// @param chunk           elements for each member; the same on all.
/// @param ranks_per_node  g; divides P.
/// @throws ConfigError when it does not.
/// Cost: g - 1 messages of m chunks inside the node, m - 1 messages of g chunks between nodes.
/// Memory: 3 P chunks of scratch.
[[nodiscard]] comm::Schedule two_level_all_to_all(const comm::Group& group, std::size_t chunk,
                                                  int ranks_per_node);

/// @brief How rows reach their experts.
enum class DispatchWay : std::uint8_t {
  kDirect,    ///< a row per choice, from rank to rank
  kTwoLevel,  ///< a row per choice, inside the node first
  kPerNode,   ///< a row per node that has one of the choices, copied inside it
};

/// @brief "direct", "two-level" or "per node".
[[nodiscard]] const char* to_string(DispatchWay way);

/// @brief A dispatch, of tokens that are spread evenly.
struct DispatchQuestion {
  collectives::Topology machine;  ///< as many ranks as hold the experts
  std::size_t tokens = 1;         ///< n
  std::size_t hidden = 1;         ///< elements of a token
  std::size_t element_bytes = 2;  ///< of each
  std::size_t num_experts = 1;    ///< E; a multiple of the ranks
  std::size_t top_k = 1;          ///< k
  std::size_t node_limit = 0;     ///< M; 0: any number
};

/// @brief What one way costs.
struct DispatchCost {
  DispatchWay way = DispatchWay::kDirect;  ///< which
  double seconds = 0;                      ///< until the last rank has all its rows
  std::size_t between_nodes = 0;           ///< bytes that a rank sends to other nodes
  std::size_t inside_node = 0;             ///< bytes that it sends inside its own

  bool operator==(const DispatchCost&) const = default;
};

/// @brief The nodes that hold a token's choices, on average: m' (1 - C(E' - e, k) / C(E', k)) for k
/// different experts out of those of m' nodes, with e experts each and E' = m' e.
/// @param nodes             m, or M of them when choices are limited to so many: m'.
/// @param experts_per_node  e.
[[nodiscard]] double expected_nodes(std::size_t nodes, std::size_t experts_per_node,
                                    std::size_t top_k);

/// @brief All ways, with the link simulator of chapter 02.
///
/// Per node, a row travels once to each node of its choices, to the rank of the sender's number
/// there, which passes copies on to the ranks of the experts. With a limit, the nodes are the M
/// best of a token.
/// @throws ConfigError when the experts are not a multiple of the ranks, when k is above the
/// experts of M nodes, or M above the nodes.
/// Source: DeepSeek-V3, arXiv 2412.19437, sections 2.1.2 (node-limited routing) and 3.2.2.
[[nodiscard]] std::vector<DispatchCost> dispatch_costs(const DispatchQuestion& question);

}  // namespace ultra::expert_parallel
