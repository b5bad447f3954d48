#pragma once
/// @file
/// Cluster: GPUs, the nodes that hold them, and the links between them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/replay/cluster/link.hpp"

namespace ultra::replay {

/// @brief Most GPUs of a node, and most multiprocessors of a GPU.
inline constexpr int kMostOfANode = 1 << 20;

/// @brief The three constants of a GPU type that no data sheet has: what training reaches, as a part
/// of what the data sheet promises.
struct Efficiency {
  double products = 0.8;  ///< of the peak FLOP/s, by a large matrix product in a training step
  double memory = 0.85;   ///< of the memory's bandwidth, by an elementwise operation
  double network = 0.6;   ///< of the NICs' bandwidth, by an exchange between nodes

  bool operator==(const Efficiency&) const = default;
};

/// @brief A matrix product [m, k] x [k, n] and how fast it was measured to be.
struct MeasuredProduct {
  double m = 0;      ///< rows
  double k = 0;      ///< summed over
  double n = 0;      ///< columns
  double flops = 0;  ///< FLOP per second

  bool operator==(const MeasuredProduct&) const = default;
};

/// @brief One GPU.
struct GpuType {
  std::string name;              ///< "a100"
  double peak_flops = 0;         ///< FLOP/s of dense bf16 products
  double fp8_flops = 0;          ///< FLOP/s of dense fp8 products; 0: it has none
  double memory_bandwidth = 0;   ///< bytes per second
  double memory_bytes = 0;       ///< of its memory
  int multiprocessors = 1;       ///< that share out the tiles of a product
  double flash_attention = 0.5;  ///< of the peak, by attention that stores no scores: published
  double kernel_seconds = 3e-6;  ///< between the ends of two kernels beside their work
  Efficiency efficiency = {};    ///< fitted on published steps
  std::vector<MeasuredProduct> measured_products =
      {};  ///< where there are any, instead of the rest
};

/// @brief What exchanges over a number of nodes reach, as a part of the NICs' bandwidth.
struct NetworkPart {
  std::size_t nodes = 2;  ///< that exchange
  double part = 1;        ///< of all their NICs' bandwidth

  bool operator==(const NetworkPart&) const = default;
};

/// @brief Nodes of GPUs.
struct Cluster {
  std::string name;           ///< "dgx-a100"
  GpuType gpu;                ///< all the same
  int gpus_per_node = 8;      ///< of each
  int nics_per_node = 8;      ///< of each
  Link intra;                 ///< in a node: bandwidth of a GPU in an exchange, as measured
  Link inter;                 ///< of one NIC: what it is sold as
  bool ranks_copy = false;    ///< exchanges in a node are work of the ranks: nothing hides them
  double network_steals = 0;  ///< of an exchange between nodes, what computation beside it loses
  double straggler = 0.002;   ///< standard deviation of a rank's time in a step, as a part of it
  double mean_hours_to_failure = 50'000;  ///< of one GPU with its share of the node
  double checkpoint_bandwidth = 2e9;      ///< bytes per second and node, to storage
  double restart_seconds = 600;           ///< from a failure until training goes on
  double host_bandwidth = 25e9;           ///< bytes per second of a GPU to the host's memory
  std::vector<NetworkPart> network_by_nodes =
      {};  ///< where it was measured, fewest nodes first, instead of the GPU's one constant

  /// @brief Bytes per second that all NICs of a node carry in an exchange over this many nodes.
  [[nodiscard]] double node_bandwidth(std::size_t nodes) const;
  /// @brief The part of those that falls to one GPU, when all of the node exchange.
  [[nodiscard]] double rank_network(std::size_t nodes) const {
    return node_bandwidth(nodes) / gpus_per_node;
  }
  /// @brief Checks that there can be such a cluster.
  /// @param where  it is described, for messages: "cluster.json".
  /// @throws ConfigError naming that, the key and its place, its value and what would work.
  void validate(const std::string& where) const;
};

/// @brief The clusters that have names: those of published measurements.
///
/// Sources: data sheets of NVIDIA's V100, A100, H100, H800, H200, HGX B200, GB200 NVL72, L40S, GeForce
/// RTX 4090 and RTX PRO 6000, products with fp32 sums (IST-DASLab/llmq, src/utilities/sol.cpp has the
/// last three as well); bus bandwidths inside a node:
/// nccl-tests, doc/PERFORMANCE.md and issues 161, 212 and 272; nccl, issue 1374 (H800); the
/// Playbook's figure of bandwidths, all-gather on one node (h100-efa); FlashAttention-2, arXiv
/// 2307.08691, figure 4 and section 4.1, FlashAttention-3, arXiv 2407.08608.
[[nodiscard]] const std::vector<Cluster>& named_clusters();

/// @brief The cluster of that name; null when there is none.
[[nodiscard]] const Cluster* find_cluster(std::string_view name);

}  // namespace ultra::replay
