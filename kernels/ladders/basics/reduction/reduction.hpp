#pragma once
/// @file
/// The ladder of reductions: the norm of all gradients, by which they are clipped. One number out
/// of n, so threads must add up what each has; the ladder is about how.
///
/// Accuracy: the squares are positive, so a relative error of their sum is at most the number of
/// roundings on the longest way of an element to the result. Every rung keeps it below n / 2^20 +
/// 64 in fp32: threads have short loops, the rest are trees, and atomics add in fp64.
/// Source of clipping: Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent
/// neural networks", arXiv 1211.5063, alg. 1.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief The norm of a vector.
namespace ultra::kernels::reduction {

/// @brief The most elements that Problem::partials has.
inline constexpr int kMostPartials = 1024;

/// @brief norm = sqrt(sum of squares).
struct Problem {
  /// @brief How many values there are.
  int n;
  /// @brief [n].
  const float* values;
  /// @brief Scratch: one sum that blocks add to. It holds nothing before.
  double* total;
  /// @brief [kMostPartials] scratch: sums of single blocks. They hold nothing before.
  float* partials;
  /// @brief One element, written.
  float* norm;
};

/// @brief Rung 1: every thread adds its square to one number, atomically.
template <simt::Executor executor>
void atomics(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: a block adds up in shared memory first, by a tree whose working threads lie
/// apart.
template <simt::Executor executor>
void scattered_tree(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: the same tree with working threads side by side.
template <simt::Executor executor>
void dense_tree(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: a warp adds up by shuffles; shared memory takes one number per warp. Exercise
/// 09.5.
template <simt::Executor executor>
void warp_shuffles(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: threads add 16 bytes at a time, then blocks in a fixed order: equal bits in every
/// run.
template <simt::Executor executor>
void two_launches(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::reduction
