#pragma once
/// @file
/// The ladder of rotary position embedding: each head of the queries and the keys turned by its
/// token's position, in place.
///
/// Element i of a head's first half is paired with element i of its second half (the layout of
/// Llama's published weights) and turned by position theta^(-2i / head_dim). Source: Su et al.
/// 2021, "RoFormer", arXiv 2104.09864, section 3.2.2.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Rotary position embedding.
namespace ultra::kernels::rope {

/// @brief Direction of the rotation: forward, or back as the gradient needs it.
enum class Rotation { kForward, kBackward };

/// @brief Queries and keys to be turned; all arrays are contiguous.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Heads of the queries.
  int query_heads;
  /// @brief Heads of the keys.
  int key_heads;
  /// @brief Half of the head dimension: the pairs of a head.
  int pairs;
  /// @brief Base of the frequencies, 10000 in the paper.
  double theta;
  /// @brief Forward or back.
  Rotation rotation;
  /// @brief [tokens], each at least 0.
  const int* positions;
  /// @brief [positions, pairs], cosines of position theta^(-i / pairs); not read by rung 1.
  const float* cosines;
  /// @brief [positions, pairs], the sines.
  const float* sines;
  /// @brief [tokens, query_heads, 2 pairs], turned in place.
  float* queries;
  /// @brief [tokens, key_heads, 2 pairs], turned in place.
  float* keys;
};

/// @brief Rung 1: one thread per pair, which computes its own sine and cosine.
template <simt::Executor executor>
void computed_angles(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: sines and cosines from a table.
template <simt::Executor executor>
void table(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: the same with accesses of 16 bytes.
template <simt::Executor executor>
void vectorised(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: one launch for queries and keys, which reads the table once per token instead of
/// once per head.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::rope
