#pragma once
/// @file
/// Capacity: an expert has a number of places, and rows that come after they are taken are dropped.
///
/// First choices come before second ones, and among these the earlier position comes first. Who is
/// dropped depends on which tokens compete: on their group. A sequence is the same on every
/// layout, whatever ranks have its tokens; the tokens that a rank has in a micro-batch are not.
/// Source: Lepikhin et al. 2020, "GShard", arXiv 2006.16668, section 2.2 and algorithm 1 (groups,
/// first choices first); Fedus et al. 2021, arXiv 2101.03961, section 2.2, equation 3.

#include <cstddef>
#include <cstdint>
#include <span>

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief Places of an expert for the tokens of a group: ceil(factor * top_k * tokens / experts).
[[nodiscard]] std::size_t capacity_of(double factor, std::size_t tokens, const MoeConfig& config);

/// @brief Writes kDropped over the choices of a group that come after their expert's places are
/// taken.
/// @param destinations  [tokens, top_k] experts, or kDropped for choices that need no place.
/// @param order         the tokens of the group, the first first.
/// @param capacity      places of each expert.
void keep_places(std::span<std::int32_t> destinations, std::size_t top_k,
                 std::span<const std::size_t> order, std::size_t num_experts, std::size_t capacity);

/// @brief Tokens of a micro-batch on this rank, and where they stand.
struct LocalTokens {
  std::size_t batch = 0;                         ///< sequences
  std::size_t seq = 0;                           ///< tokens of each on this rank
  std::span<const std::int32_t> positions = {};  ///< [seq] of each token; empty: 0, 1, 2, ...
  std::size_t seq_len = 0;                       ///< tokens of a whole sequence
};

/// @brief Drops what is beyond the capacity, of groups of tokens that may be on several ranks.
/// @param destinations  [batch * seq, top_k] of i32; written to.
/// @param cp            the ranks that share the sequences.
/// Collective over cp for groups of sequences.
/// Cost: for these an all-gather of every rank's choices and positions, i32.
void drop_beyond_capacity(const Tensor& destinations, const LocalTokens& tokens,
                          const MoeConfig& config, const Communicator& cp);

}  // namespace ultra::expert_parallel
