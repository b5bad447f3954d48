#pragma once
/// @file
/// Operations that work row by row: normalisation, rotation, look-up, cross entropy. All matrices are
/// row-major and contiguous. Element types of f32, bf16 and f16 may be mixed; f64 goes with f64.

#include <cstdint>

#include "kernels/generic/attention/positions.hpp"
#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief Operands of a root-mean-square normalisation.
struct RmsNorm {
  /// @brief Rows.
  std::size_t rows;
  /// @brief Elements of a row.
  std::size_t hidden;
  /// @brief [rows, hidden].
  Source x;
  /// @brief [hidden].
  Source weight;
  /// @brief Added to the mean of the squares.
  double epsilon;
  /// @brief [rows, hidden], written: x r weight.
  Target y;
  /// @brief [rows], written: r = 1 / sqrt(mean(x^2) + epsilon); f64 with f64, else f32.
  Target reciprocal_rms;
};

/// @brief y and the reciprocal root mean squares.
template <simt::Executor executor>
void rms_norm(const RmsNorm& operands, const simt::Queue& queue);

/// @brief Parts into which rows are divided for the weight's gradient: rows of the scratch.
/// @param leaf  rows of a leaf, where its sum follows a tree.
constexpr std::size_t weight_parts(std::size_t rows, std::size_t leaf = kOneLeaf) {
  if (leaf != kOneLeaf) {
    return (rows + leaf - 1) / leaf;
  }
  constexpr std::size_t kRowsOfPart = 32;
  constexpr std::size_t kMost = 64;
  const std::size_t parts = (rows + kRowsOfPart - 1) / kRowsOfPart;
  return parts < 1 ? 1 : parts < kMost ? parts : kMost;
}

/// @brief Operands of the gradients of a root-mean-square normalisation.
struct RmsNormBackward {
  /// @brief Rows.
  std::size_t rows;
  /// @brief Elements of a row.
  std::size_t hidden;
  /// @brief [rows, hidden].
  Source d_y;
  /// @brief [rows, hidden].
  Source x;
  /// @brief [hidden].
  Source weight;
  /// @brief [rows]; f64 with f64, else f32.
  Source reciprocal_rms;
  /// @brief [rows, hidden], written.
  Target d_x;
  /// @brief [hidden], written or added to.
  Target d_weight;
  /// @brief Which of the two.
  Write write;
  /// @brief [weight_parts(rows, leaf), hidden] of scratch, in the type of reciprocal_rms.
  void* scratch;
  /// @brief Rows of a leaf of the tree that the weight's sum follows.
  std::size_t leaf = kOneLeaf;
};

/// @brief Both gradients of rms_norm.
template <simt::Executor executor>
void rms_norm_backward(const RmsNormBackward& operands, const simt::Queue& queue);

/// @brief Operands of a rotation by position.
struct Rope {
  /// @brief Sequences.
  std::size_t batch;
  /// @brief Rows of a sequence.
  std::size_t seq;
  /// @brief Heads of a row.
  std::size_t heads;
  /// @brief Half of a head's elements.
  std::size_t half;
  /// @brief [batch, seq, heads, 2 half], rotated in place.
  Target x;
  /// @brief [positions, half]; f64 with f64, else f32.
  Source cosines;
  /// @brief [positions, half], likewise.
  Source sines;
  /// @brief 1 forward, -1 backward.
  int sign;
  /// @brief Of each row of a sequence.
  Positions positions;
};

/// @brief Rotates each head by its row's position.
template <simt::Executor executor>
void rope(const Rope& operands, const simt::Queue& queue);

/// @brief Operands of a look-up in a part of a table, and of its gradient.
struct Embedding {
  /// @brief Tokens.
  std::size_t tokens;
  /// @brief Elements of a row.
  std::size_t hidden;
  /// @brief Rows of the part.
  std::size_t rows;
  /// @brief The token of its first row.
  std::size_t first_token;
  /// @brief [tokens].
  const std::int32_t* ids;
  /// @brief Tokens of a leaf of the tree that the gradients' sums follow.
  std::size_t leaf = kOneLeaf;
};

/// @brief out [tokens, hidden] = the row of each token, or zeros where another part has it. Of one
/// type.
template <simt::Executor executor>
void embedding(const Embedding& operands, const Target& out, const Source& part,
               const simt::Queue& queue);

/// @brief d_part [rows, hidden] += each row of d_output [tokens, hidden] at its token, in the order
/// of the tokens; a row is rounded once.
/// @param scratch  [2 tokens].
template <simt::Executor executor>
void embedding_backward(const Embedding& operands, const Target& d_part, const Source& d_output,
                        std::int32_t* scratch, const simt::Queue& queue);

/// @brief Operands of a cross entropy with its gradient.
struct CrossEntropy {
  /// @brief Rows.
  std::size_t rows;
  /// @brief Elements of a row.
  std::size_t vocab;
  /// @brief [rows, vocab], replaced by their gradient.
  Target logits;
  /// @brief [rows]; -1 has no loss.
  const std::int32_t* targets;
  /// @brief What the sum of the losses is divided by.
  double normalizer;
  /// @brief One number, written or added to.
  double* loss;
  /// @brief Which of the two.
  Write write;
  /// @brief [rows] of scratch.
  double* scratch;
};

/// @brief The loss and (softmax - one_hot) / normalizer. A target outside of the vocabulary makes the
/// loss NaN.
template <simt::Executor executor>
void cross_entropy(const CrossEntropy& operands, const simt::Queue& queue);

}  // namespace ultra::kernels::generic
