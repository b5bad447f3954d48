#pragma once
/// @file
/// A cluster by its name, or from a file.

#include <string>
#include <string_view>

#include "common/replay/cluster/cluster.hpp"

namespace ultra::replay {

/// @brief Reads a cluster from a JSON file, in bytes, seconds and FLOP/s.
///
/// Needed: gpu.peak_flops, gpu.memory_bandwidth, gpu.memory_bytes, gpus_per_node, intra and inter
/// with latency and bandwidth each. The rest has defaults: name, gpu.name, gpu.multiprocessors,
/// gpu.fp8_flops, gpu.flash_attention, gpu.kernel_seconds, gpu.efficiency (products, memory,
/// network), gpu.measured_products (a list of m, k, n, flops), nics_per_node, ranks_copy,
/// network_steals, straggler, mean_hours_to_failure, checkpoint_bandwidth, restart_seconds,
/// host_bandwidth.
/// @throws FileError for a key that is missing, unknown or of another type; ConfigError for values
/// that make no cluster.
[[nodiscard]] Cluster read_cluster_file(const std::string& path);

/// @brief A named cluster, or that of a file that ends in .json.
/// @param flag  that gave the name, for messages.
/// @throws ConfigError for an unknown name, with all of them; and as read_cluster_file().
[[nodiscard]] Cluster cluster_by_name(const std::string& name, std::string_view flag);

}  // namespace ultra::replay
