#pragma once
/// @file
/// The ladder of softmax: each row of out is exp(x - m) / sum(exp(x - m)) of a row of in, m its
/// largest element. exp() of the elements themselves overflows fp32 from 88.8 on; m changes nothing
/// but that.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Softmax over rows.
namespace ultra::kernels::softmax {

/// @brief out = softmax of each row of in; both matrices are row-major and contiguous.
struct Problem {
  /// @brief Independent rows.
  int rows;
  /// @brief Elements of a row.
  int columns;
  /// @brief [rows, columns]; -infinity masks an element, at least one of a row is finite.
  const float* in;
  /// @brief [rows, columns], written.
  float* out;
};

/// @brief The longest row that registers() can hold.
inline constexpr int kMostColumnsOfWarp = 2048;

/// @brief The longest row that block_per_row() can hold.
inline constexpr int kMostColumnsOfBlock = 32768;

/// @brief Rung 1: one thread per row.
template <simt::Executor executor>
void thread_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: a warp per row, in three passes: largest element, sum, quotients.
template <simt::Executor executor>
void warp_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 3: largest element and sum in one pass, the sum rescaled whenever the largest grows.
/// Exercise 09.7.
/// Source: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", arXiv
/// 1805.02867, alg. 3.
template <simt::Executor executor>
void online(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 4: the warp's registers hold the row: one read.
/// Requires: at most kMostColumnsOfWarp columns.
template <simt::Executor executor>
void registers(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 5: the registers of a whole block hold a long row.
/// Requires: at most kMostColumnsOfBlock columns.
template <simt::Executor executor>
void block_per_row(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 6: a block per row of any length: online, and a second read.
template <simt::Executor executor>
void long_rows(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::softmax
