#pragma once
/// @file
/// What --sums tree does not go together with, and which sizes have no tree that a layout cuts at nodes.

#include <string_view>
#include <vector>

#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// The flag, as tables and messages have it.
inline constexpr std::string_view kTreeSumsFlag = "--sums tree";

/// The algorithm of its all-reduces and reduce-scatters.
inline constexpr const char* kTreeExchange = "pairwise-tree";

/// @brief The rows of kTreeSumsFlag. @param given  whether the flag is.
[[nodiscard]] std::vector<train::Conflict> conflicts_with_trees(const train::Setup& setup,
                                                                bool given);

/// @brief Whether the batch is dealt out micro-batch by micro-batch: where there are several of them, whose
/// gradients ranks add up one by one: with ZeRO-2 and 3 the replicas, with --ep those that send tokens to
/// each other's experts.
[[nodiscard]] bool deals_in_turn(const train::Setup& setup);

/// @brief Whether shards of gradients are joined where they are reduced: with ZeRO-2 and 3.
[[nodiscard]] bool joins_shards(const train::Setup& setup);

/// @brief Checks that each rank, and each micro-batch, has whole nodes of all trees.
/// @throws ConfigError with the numbers, and what would do.
void expect_nodes(const train::Setup& setup);

}  // namespace ultra::five_d
