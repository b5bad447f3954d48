#pragma once
/// @file
/// Elements set, copied and converted, through any strides.

#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief Sets every element of a view; of i32 elements the nearest integer towards 0.
template <simt::Executor executor>
void fill(const Target& to, const Layout& layout, double value, const simt::Queue& queue);

/// @brief Copies a view into another of the same extents, converted to its type: exactly where that
/// can hold the number, else to the nearest, ties to even. i32 goes to i32 alone. The two may be one
/// and the same, and do not overlap otherwise.
template <simt::Executor executor>
void copy(const Target& to, const Layout& to_layout, const Source& from, const Layout& from_layout,
          const simt::Queue& queue);

}  // namespace ultra::kernels::generic
