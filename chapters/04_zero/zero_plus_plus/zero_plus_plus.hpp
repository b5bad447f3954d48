#pragma once
/// @file
/// ZeRO++: what ZeRO-3 sends, in fewer bytes and over fewer slow links.
///
/// ZeRO-3 gathers every unit of weights but the head twice in a micro-batch and reduces its
/// gradients once: almost 3 M bytes for a model of M. Three techniques cut what crosses the links
/// between nodes:
///
/// - qwZ: weights travel quantised to 8 bits. The shard that its owner updates stays exact.
/// - hpZ: after the gather for the forward pass, each rank of a node keeps a part of the unit, so that
///   a node holds all of it. The gather for the backward pass stays inside the node.
/// - qgZ: gradients travel quantised to 4 bits. A ring would quantise a sum again at each of its
///   steps; an all-to-all quantises each contribution once (with nodes each node's sum once
///   more), and the owner adds them up unquantised.
///
/// Source: Wang et al. 2023, "ZeRO++: Extremely Efficient Collective Communication for Giant Model
/// Training", arXiv 2306.10209.

#include <cstddef>
#include <optional>

#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

namespace ultra::zero {

/// @brief Whether ranks keep parts of gathered units for the backward pass (hpZ).
enum class SecondaryShards {
  kNone,    ///< both gathers of a unit are over all ranks
  kInNode,  ///< a node keeps the unit, in parts; the second gather is inside the node
};

/// @brief Which techniques of ZeRO++ are in use; by default none of them.
struct ZeroPlusPlus {
  std::optional<BlockFormat> weights = {};             ///< qwZ: how weights travel; absent: exact
  SecondaryShards secondary = SecondaryShards::kNone;  ///< hpZ; needs node_size
  std::optional<BlockFormat> gradients = {};           ///< qgZ: how gradients travel; absent: exact
  std::optional<std::size_t> node_size = {};           ///< divides the ranks; absent: no nodes

  /// @brief True when units of weights travel in another way than ZeRO-3's.
  [[nodiscard]] bool changes_weights() const {
    return weights.has_value() || secondary == SecondaryShards::kInNode;
  }
  bool operator==(const ZeroPlusPlus&) const = default;
};

}  // namespace ultra::zero
