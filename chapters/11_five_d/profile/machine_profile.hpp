#pragma once
/// @file
/// --profile-machine: what this machine's ranks compute, move and send, as a cluster file.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/program/technique.hpp"

/// @brief Chapter 11: this machine in numbers, for a planner.
namespace ultra::profile {

/// @brief A product [m, k] x [k, n] and how fast a rank computes it while all others do.
struct ProductSpeed {
  std::size_t m = 0;  ///< rows
  std::size_t k = 0;  ///< summed over
  std::size_t n = 0;  ///< columns
  double flops = 0;   ///< floating-point operations per second
};

/// @brief A link between two ranks: seconds = latency + bytes / bandwidth.
struct LinkSpeed {
  double latency = 0;    ///< seconds of an empty message
  double bandwidth = 0;  ///< bytes per second
};

/// @brief One rank of this machine, beside as many others as the profile has.
struct MachineProfile {
  std::vector<ProductSpeed> products;  ///< in the type of the training
  double memory_bandwidth = 0;         ///< bytes per second, read and written
  double memory_bytes = 0;             ///< of the machine, over the ranks on it
  double call_seconds = 0;             ///< of the smallest operation
  int ranks_per_node = 1;              ///< on the machine of rank 0
  LinkSpeed intra;                     ///< between two ranks of a machine
  LinkSpeed inter;                     ///< between machines; as intra where there is one
};

/// @brief Measures products, memory and links on all ranks at once. Collective.
/// @return the same on every rank: of the slowest one.
/// Cost: some seconds; an interrupt ends it between two measurements.
[[nodiscard]] MachineProfile measure_machine(const Communicator& world, DType dtype);

/// @brief The profile as a cluster file, for --plan-cluster.
[[nodiscard]] std::string cluster_file(const MachineProfile& profile);

/// @brief The flags --profile-machine and --profile-out as a technique.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::profile
