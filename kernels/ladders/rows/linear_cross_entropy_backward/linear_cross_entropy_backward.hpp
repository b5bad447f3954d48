#pragma once
/// @file
/// The ladder of the gradients of a linear layer's cross entropy: linear_cross_entropy's backward
/// pass. The gradient of the logits is as large as they are, and nobody wants it either.
/// Source: Hsu et al. 2024, "Liger Kernel: efficient Triton kernels for LLM training", arXiv
/// 2410.10989, section 3.2 (chunks); Wijmans et al. 2024, arXiv 2411.09009, section 4.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief The gradients of a linear layer's cross entropy.
namespace ultra::kernels::linear_cross_entropy_backward {

/// @brief The gradients of scale x (sum of all tokens' losses); matrices are row-major and
/// contiguous; hidden and vocab are multiples of 8.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Rows of weight.
  int vocab;
  /// @brief Elements of a token, and of a row of weight.
  int hidden;
  /// @brief What each loss is multiplied by: 1 / tokens for a mean.
  float scale;
  /// @brief [tokens, hidden].
  const simt::bf16* x;
  /// @brief [vocab, hidden].
  const simt::bf16* weight;
  /// @brief [tokens], each below vocab.
  const int* targets;
  /// @brief [tokens], of the forward pass: log(sum over the vocabulary of exp(logit)).
  const float* lse;
  /// @brief Scratch [tokens of a chunk, vocab]: gradients of logits.
  simt::bf16* d_logits;
  /// @brief [tokens, hidden], written.
  simt::bf16* d_x;
  /// @brief [vocab, hidden], written.
  float* d_weight;
};

/// @brief Rows and columns of a block's tile.
inline constexpr int kTile = 128;

/// @brief Tokens of a chunk: as many whole tiles as make the scratch about as large as x.
constexpr int chunk_of(int tokens, int vocab, int hidden) {
  const int times = (vocab + hidden - 1) / hidden;
  const int wanted = (tokens + times - 1) / times;
  return (wanted + kTile - 1) / kTile * kTile;
}

/// @brief Rung 1: the gradients of all logits in memory.
template <simt::Executor executor>
void materialized(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: those of a chunk of tokens at a time.
template <simt::Executor executor>
void chunked(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::linear_cross_entropy_backward
