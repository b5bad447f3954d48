#pragma once
/// @file
/// Rows of a matrix that are copied, added up and multiplied with each other by lists of their numbers:
/// what a mixture of experts does with its tokens. Matrices are contiguous and of one type.

#include <cstdint>

#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief Sizes of a copy of rows, and which row goes where.
struct RowList {
  /// @brief Rows of the list.
  std::size_t rows;
  /// @brief Elements of a row.
  std::size_t features;
  /// @brief [rows] the row of the other matrix that each belongs to.
  const std::int32_t* of;
  /// @brief [rows] by which each is multiplied, of the matrices' type; without data: by one.
  Source weights;
};

/// @brief out [rows, features] = weight x, of the row of x that each belongs to.
template <simt::Executor executor>
void take_rows(const RowList& list, const Target& out, const Source& x, const simt::Queue& queue);

/// @brief out [rows] = the scalar product of each row of a with the row of b that it belongs to.
template <simt::Executor executor>
void dot_rows(const RowList& list, const Target& out, const Source& a, const Source& b,
              const simt::Queue& queue);

/// @brief Which rows are added up to one.
struct RowSums {
  /// @brief Rows of the result.
  std::size_t sums;
  /// @brief Elements of a row.
  std::size_t features;
  /// @brief Terms of each sum, at most.
  std::size_t terms;
  /// @brief [sums, terms] rows to add, in this order; -1 for none.
  const std::int32_t* rows;
  /// @brief [rows of x] by which each is multiplied, of the matrices' type; without data: by one.
  Source weights;
};

/// @brief out [sums, features] = the weighted sums of rows of x.
template <simt::Executor executor>
void sum_rows(const RowSums& of, const Target& out, const Source& x, const simt::Queue& queue);

}  // namespace ultra::kernels::generic
