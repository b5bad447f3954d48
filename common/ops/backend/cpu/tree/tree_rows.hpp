#pragma once
/// @file
/// Sums over tokens, and over a vocabulary, that follow a SumTree.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/ops/partial_softmax.hpp"

namespace ultra::ops::cpu {

/// @brief See rms_norm_backward; d_weight [hidden] is written: its sum over rows is a tree's.
/// Memory: hidden elements for each level of the tree.
template <class T>
void tree_rms_norm_backward(std::size_t rows, std::size_t hidden, const T* d_y, const T* x,
                            const T* weight, const T* reciprocal_rms, T* d_x, T* d_weight);

/// @brief Adds the gradients of tokens to the rows of a part of a table: a tree over the tokens, in which
/// a token of another row counts as 0.
/// @param d_output  [tokens, hidden].
/// @param table     [rows, hidden], from token `first_token` on.
template <class T>
void tree_embedding_backward(std::span<const std::int32_t> tokens, const T* d_output,
                             std::size_t first_token, std::size_t rows, std::size_t hidden,
                             T* table);

/// @brief See ops::highest_logits.
[[nodiscard]] Tensor tree_highest_logits(const LogitsOfPart& part);

/// @brief See ops::exponentials_of_logits; the sums follow the tree of the vocabulary, of which the part is
/// a node.
[[nodiscard]] Tensor tree_exponentials_of_logits(const LogitsOfPart& part, const Tensor& highest);

/// @brief See ops::cross_entropy_of_parts; each token's loss is divided by the normaliser, and their sum is
/// exact.
/// @param loss  [ExactSum::kDigits].
void tree_cross_entropy_of_parts(const Tensor& loss, const LogitsOfPart& part,
                                 const Tensor& highest, const Tensor& sums, double normalizer,
                                 Write write);

}  // namespace ultra::ops::cpu
