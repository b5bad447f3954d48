#pragma once
/// @file
/// The ladder of the token permutation: a layer of experts lays its tokens in the order of the
/// experts that the router chose, so that each expert finds its own next to each other. Where each
/// token goes is a sort of small numbers; that it goes there is memory traffic. Source: Gale et al.
/// 2022, "MegaBlocks", arXiv 2211.15841, section 5.3 (the permutation as a sort).

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief Tokens in the order of their experts.
namespace ultra::kernels::token_permutation {

/// @brief permuted[place[s]] = x[s / top_k] for each slot s = token x top_k + k, where places of
/// expert e are begins[e] to begins[e + 1]. All matrices are row-major and contiguous.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Elements of a token.
  int hidden;
  /// @brief Experts, at most kMostExperts.
  int experts;
  /// @brief Experts of each token.
  int top_k;
  /// @brief [tokens, top_k], what the router chose.
  const int* experts_of;
  /// @brief [tokens, hidden].
  const simt::bf16* x;
  /// @brief [experts + 1], written.
  int* begins;
  /// @brief [tokens, top_k], written: where each slot has gone, for the way back.
  int* place;
  /// @brief [tokens x top_k, hidden], written.
  simt::bf16* permuted;
  /// @brief [scratch_size(problem)] scratch; holds nothing before.
  int* scratch;
};

/// @brief The most experts.
inline constexpr int kMostExperts = 256;
/// @brief Slots of a block that counts and places.
inline constexpr int kSlotsOfBlock = 256;

/// @brief Elements of Problem::scratch.
constexpr std::size_t scratch_size(int slots, int experts) {
  const int blocks = (slots + kSlotsOfBlock - 1) / kSlotsOfBlock;
  return static_cast<std::size_t>(experts) * static_cast<std::size_t>(blocks) + 1;
}

/// @brief Rung 1: slots draw their places by atomic additions; a thread copies an element.
template <simt::Executor executor>
void atomics(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: places by counting, in the order of the tokens.
template <simt::Executor executor>
void stable(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: each token is read once, in accesses of 16 bytes, and stored top_k times.
template <simt::Executor executor>
void read_once(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::token_permutation
