#pragma once
/// @file
/// The ladder of divergence: rotary position embedding, in which neighbours do different work.
///
/// The elements 2 p and 2 p + 1 of a token are a point that is turned by an angle of token and
/// pair:
///   out[2 p]     = in[2 p] cos - in[2 p + 1] sin
///   out[2 p + 1] = in[2 p + 1] cos + in[2 p] sin
/// A warp executes one instruction at a time: where its lanes take both sides of a branch, it goes
/// through both, and on each side the lanes of the other idle.
/// Source: Su et al. 2021, "RoFormer", arXiv 2104.09864, eq. 34.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Rotary position embedding, as an example of divergence.
namespace ultra::kernels::divergence {

/// @brief Turns every pair of every token; all arrays are row-major and contiguous.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Pairs of a token: half its elements.
  int pairs;
  /// @brief [tokens, 2 pairs].
  const float* in;
  /// @brief [tokens, pairs], cosines of the angles.
  const float* cosines;
  /// @brief [tokens, pairs], sines of the angles.
  const float* sines;
  /// @brief [tokens, 2 pairs], written.
  float* out;
};

/// @brief Rung 1: a thread per element, with a branch between even and odd ones.
template <simt::Executor executor>
void branched(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: the same branch with the elements sorted, so that the lanes of a warp agree.
template <simt::Executor executor>
void sorted(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: one expression for both sides, with a sign that depends on the element.
template <simt::Executor executor>
void arithmetic(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: a thread does both elements of a pair: there is no difference left.
template <simt::Executor executor>
void paired(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::divergence
