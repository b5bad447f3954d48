#pragma once
/// @file
/// Rows of a matrix on a device with streams, taken and added up by lists that the host has: nobody waits.

#include <cstdint>
#include <span>

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief [rows, features] Row i is row rows[i] of x, times weights[i].
/// @param x        [.., features] of f32 or f64, contiguous, on a device with streams.
/// @param rows     of x.
/// @param weights  [rows] of x's type, on the host; undefined: one.
/// @throws InternalError on the CPU, whose code reads the rows itself; all functions here.
[[nodiscard]] Tensor take_rows(const Tensor& x, std::span<const std::int32_t> rows,
                               const Tensor& weights);

/// @brief [sums, features] Row i is the sum of the rows of x that the i-th `terms` numbers name, in their
/// order, each times its weight.
/// @param x        [rows, features] of f32 or f64, contiguous, on a device with streams.
/// @param rows     [sums, terms] of x; -1 for none.
/// @param weights  [rows] of x's type, on the host; undefined: one.
[[nodiscard]] Tensor sum_rows(const Tensor& x, std::span<const std::int32_t> rows,
                              std::size_t terms, const Tensor& weights);

/// @brief [rows] The scalar product of row i of a with row rows[i] of b.
[[nodiscard]] Tensor dot_rows(const Tensor& a, const Tensor& b, std::span<const std::int32_t> rows);

}  // namespace ultra::ops
