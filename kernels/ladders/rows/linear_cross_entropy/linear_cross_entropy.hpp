#pragma once
/// @file
/// The ladder of a language model's last product and its loss: logits = x transpose(weight), loss =
/// log sum exp(logits) - logit of the target, for each token. The logits are the largest array of a
/// training step, tokens x vocab, and nobody wants them. Source: Wijmans et al. 2024, "Cut your
/// losses in large-vocabulary language models", arXiv 2411.09009, section 4.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief The loss of a linear layer's outputs.
namespace ultra::kernels::linear_cross_entropy {

/// @brief losses[t] = log sum_v exp(x_t weight_v) - x_t weight_targets[t]; all matrices are
/// row-major and contiguous; hidden is a multiple of 8.
struct Problem {
  /// @brief Tokens.
  int tokens;
  /// @brief Rows of weight.
  int vocab;
  /// @brief Elements of a token, and of a row of weight.
  int hidden;
  /// @brief [tokens, hidden].
  const simt::bf16* x;
  /// @brief [vocab, hidden].
  const simt::bf16* weight;
  /// @brief [tokens], each below vocab.
  const int* targets;
  /// @brief [tokens], written.
  float* losses;
  /// @brief [tokens] scratch: the targets' logits.
  float* target_logits;
  /// @brief [scratch_size()] scratch: rung 1's logits; rung 2's largest logits and sums.
  float* scratch;
};

/// @brief Tokens and rows of weight of the tile that a block computes.
inline constexpr int kTile = 128;

/// @brief Floats of rung 1's scratch: all logits.
constexpr std::size_t logits_size(int tokens, int vocab) {
  return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(vocab);
}

/// @brief Floats of rung 2's scratch: two for each token and tile of the vocabulary.
constexpr std::size_t partials_size(int tokens, int vocab) {
  const int tiles = (vocab + kTile - 1) / kTile;
  return 2 * static_cast<std::size_t>(tokens) * static_cast<std::size_t>(tiles);
}

/// @brief Rung 1: a product that writes the logits, then a kernel that reads them.
template <simt::Executor executor>
void materialized(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: the product's tiles are reduced where they are, in registers.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::linear_cross_entropy
