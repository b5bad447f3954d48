#pragma once
/// @file
/// --on: a machine that is not here, on which a step is recorded and priced instead of trained.

#include <cstddef>
#include <optional>
#include <string>

#include "common/replay/cluster/cluster.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::train {

/// @brief A cluster, and how many of its nodes.
struct Machine {
  replay::Cluster cluster;           ///< its GPUs, nodes and links
  std::optional<std::size_t> nodes;  ///< absent: as many as the ranks need
};

/// @brief What --on says.
struct OnOptions {
  std::optional<Machine> machine;  ///< --on; absent: the training runs here
  bool json = false;               ///< --on-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);
  /// @brief Whether a machine is named.
  [[nodiscard]] bool asked() const { return machine.has_value(); }
};

/// @brief Reads "dgx-h100:4,nics_per_node=1": a named cluster or a file that ends in .json, its
/// nodes, and keys of a cluster file with other values.
/// @throws ConfigError that says what of it cannot be read and what there is; what reading the file
/// throws.
[[nodiscard]] Machine parse_machine(const std::string& text);

}  // namespace ultra::train
