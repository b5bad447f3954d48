#pragma once
/// @file
/// The ladder of the cross-entropy of logits and its gradient: per token,
/// loss = log(sum of exp(logits)) - logits[target], and the logits are replaced by
/// (softmax(logits) - one_hot(target)) scale.
///
/// In place throughout, as common/ops does it: with a large vocabulary the logits are the largest
/// activation of all, and a second array of their size is what no rung past the first can afford.
/// Launching a rung again works on what it wrote, in the same time.
///
/// Requires targets in [0, vocab): the caller checks them (common/ops does, before it calls a
/// kernel), because a kernel could only stop the whole program. With a target outside, rungs 1 to 3
/// take another token's logit for the loss, or read before or after all logits, which the emulator
/// reports as an access out of bounds; rung 4 reads outside of its copy of the row, which it always
/// reports. There is no ignored index, as in common/ops: a token without a target is left out of
/// the batch.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Cross-entropy and its gradient.
namespace ultra::kernels::cross_entropy {

/// @brief Losses and gradients of the logits; all matrices are row-major and contiguous.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Elements of a row.
  int vocab;
  /// @brief What the gradients are multiplied by: 1 / tokens of the global batch.
  float scale;
  /// @brief [tokens], each in [0, vocab).
  const int* targets;
  /// @brief [tokens, vocab], read, then overwritten with their gradients.
  float* logits;
  /// @brief [tokens], written: each token's loss, not scaled.
  float* losses;
  /// @brief [tokens, vocab], rung 1's softmax between its kernels.
  float* probabilities;
  /// @brief [tokens], log(sum of exp) between the kernels of rung 2.
  float* log_sums;
};

/// @brief The longest row of rung 4, which holds it in shared memory with the sums of its warps.
inline constexpr int kLongestSharedRow =
    static_cast<int>((simt::kMostSharedBytes - 1024) / sizeof(float));

/// @brief Rung 1: a kernel each for the probabilities, the losses and the gradients.
template <simt::Executor executor>
void materialized(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: log-sum-exp by a warp per row, then the gradients from it: no probabilities.
template <simt::Executor executor>
void log_sum_exp(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: one kernel, a block per row, maximum and sum in one pass, accesses of 16 bytes.
template <simt::Executor executor>
void online(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: the row held in shared memory: the logits are read once.
template <simt::Executor executor>
void in_shared(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::cross_entropy
