#pragma once
/// @file
/// The permutation of tokens into the order of their experts, and back.
///
/// A token that chooses top_k experts becomes top_k rows. In expert order the rows of an expert are
/// together: one matrix, and one piece of a message. On the way back each token gets the weighted
/// sum of its rows. The two are each other's backward pass.
///
/// Exercise 08.2 (`./workbook check 08.2`).
/// Body: solutions/08_expert_parallel/token_permutation.cpp.
/// Source: Gale et al. 2023, "MegaBlocks", arXiv 2211.15841, section 5.3.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief Rows in expert order, and where they come from.
struct ExpertOrder {
  std::size_t tokens = 0;                    ///< that there are
  std::size_t top_k = 0;                     ///< choices of each
  std::vector<std::size_t> choices;          ///< [rows] token * top_k + which of its choices
  std::vector<std::size_t> rows_per_expert;  ///< [experts] how many rows each has

  /// @brief Number of rows.
  [[nodiscard]] std::size_t rows() const { return choices.size(); }
  /// @brief The token of a row.
  [[nodiscard]] std::size_t token_of(std::size_t row) const { return choices[row] / top_k; }
};

/// @brief Sorts choices by expert; those of an expert stay in the order of the tokens.
/// @param destinations  [tokens, top_k] of i32: an expert, or kDropped for what has no row.
/// @param num_experts   that there are; some may have no row.
[[nodiscard]] ExpertOrder expert_order(const Tensor& destinations, std::size_t num_experts);

/// @brief The rows of the tokens.
/// @param x        [tokens, features].
/// @param weights  [tokens, top_k] by which each row is multiplied; undefined: by one.
/// @return [rows, features].
[[nodiscard]] Tensor to_expert_order(const Tensor& x, const Tensor& weights,
                                     const ExpertOrder& order);

/// @brief The tokens' sums of their rows; zeros for a token without any.
/// @param rows     [rows, features].
/// @param weights  [tokens, top_k] by which each row is multiplied; undefined: by one.
/// @return [tokens, features].
[[nodiscard]] Tensor from_expert_order(const Tensor& rows, const Tensor& weights,
                                       const ExpertOrder& order);

}  // namespace ultra::expert_parallel
