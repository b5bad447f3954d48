#pragma once
/// @file
/// Softmax whose terms several ranks or several passes have: cross entropy of a vocabulary in parts, and
/// attention over keys in parts.

#include <cstdint>

#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief Logits of a part of the vocabulary. What has a number for each row is f64 with f64 logits, else
/// f32.
struct PartOfLogits {
  /// @brief Rows.
  std::size_t rows;
  /// @brief Elements between the starts of neighbouring rows.
  std::size_t columns;
  /// @brief Elements of a row that are of the vocabulary: the first ones.
  std::size_t vocab;
  /// @brief The token of the first.
  std::size_t first_token;
  /// @brief [rows, columns], contiguous.
  Target logits;
  /// @brief [rows]; -1 has no loss.
  const std::int32_t* targets;
  /// @brief Elements of a leaf of the tree that sums over the vocabulary follow.
  std::size_t leaf = kOneLeaf;
};

/// @brief highest [rows] = each row's largest logit, or minus infinity of none.
template <simt::Executor executor>
void highest_of_rows(const PartOfLogits& part, const Target& highest, const simt::Queue& queue);

/// @brief Replaces each logit by e^(logit - highest).
/// @param highest  [rows], of the whole vocabulary.
/// @param sums     [2, rows], written: the sums of these, and the target's logit where this part has it,
///                 else 0.
template <simt::Executor executor>
void exponentials_of_rows(const PartOfLogits& part, const Source& highest, const Target& sums,
                          const simt::Queue& queue);

/// @brief What the loss of a vocabulary in parts is made of.
struct PartialCrossEntropy {
  /// @brief [rows] of the whole vocabulary.
  Source highest;
  /// @brief [2, rows] of the whole vocabulary.
  Source sums;
  /// @brief What the sum of the losses is divided by.
  double normalizer;
  /// @brief One number, or the digits of an exact sum, written or added to: the loss of all ranks' logits.
  double* loss;
  /// @brief Which of the two.
  Write write;
  /// @brief [rows] of scratch.
  double* scratch;
  /// @brief Scratch of exact_sum_of() for the rows; null where the sum is one number.
  std::int64_t* partials = nullptr;
};

/// @brief The loss, and the gradient in place of the exponentials.
template <simt::Executor executor>
void partial_cross_entropy(const PartOfLogits& part, const PartialCrossEntropy& of,
                           const simt::Queue& queue);

/// @brief Attention over some keys, and over others; contiguous, all of f64 or all of f32.
struct PartialAttentions {
  /// @brief Sequences.
  std::size_t batch;
  /// @brief Queries of a sequence.
  std::size_t seq;
  /// @brief Heads.
  std::size_t heads;
  /// @brief Elements of a head.
  std::size_t head_dim;
  /// @brief [batch, seq, heads, head_dim], changed in place.
  Target output;
  /// @brief [batch, heads, seq], changed in place.
  Target log_sum_exp;
  /// @brief As output.
  Source part_output;
  /// @brief As log_sum_exp.
  Source part_log_sum_exp;
};

/// @brief Makes of both the attention over all keys; a query may have seen none, on either side.
/// Source: Liu et al. 2023, arXiv 2310.01889, section 3.1.
template <simt::Executor executor>
void merge_attention(const PartialAttentions& of, const simt::Queue& queue);

}  // namespace ultra::kernels::generic
