#pragma once
/// @file
/// The generic kernels: every operation of training for every shape, stride and element type, in the
/// simplest way that is right. The ladders are for speed; these are for what no rung fits, and for
/// 64-bit numbers. Two runs give the same bits: sums have a fixed order, and nothing is added atomically.
///
/// Element types are chosen when a kernel runs, not when it is compiled: a branch that all threads take
/// alike costs little beside an access of memory, and one kernel serves all mixtures of types.

#include <cstddef>

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

/// @brief Simple kernels for every shape and element type.
namespace ultra::kernels::generic {

/// @brief Element types. Those of two bytes are read as f32, computed with in f32 and rounded once.
enum class Number : unsigned char { kF32, kF64, kI32, kBf16, kF16 };

/// @brief Bytes of an element.
constexpr std::size_t size_of(Number number) {
  return number == Number::kF64 ? 8 : number == Number::kF32 || number == Number::kI32 ? 4 : 2;
}

/// @brief Whether sums of such elements are kept in f64, not in f32.
constexpr bool sums_in_f64(Number number) { return number == Number::kF64; }

/// @brief Contiguous elements that a kernel reads.
struct Source {
  /// @brief Their type.
  Number number;
  /// @brief The first.
  const void* data;
};

/// @brief Contiguous elements that a kernel writes, or reads and writes.
struct Target {
  /// @brief Their type.
  Number number;
  /// @brief The first.
  void* data;

  /// @brief The same elements, to be read.
  constexpr operator Source() const { return {number, data}; }  // NOLINT: a target can be read
};

/// @brief Dimensions of the largest view.
inline constexpr int kMostDimensions = 6;

/// @brief Where the elements of a view are: index (i0, i1, ...) is at i0 strides[0] + i1 strides[1] +
/// ...
struct Layout {
  /// @brief Dimensions, at most kMostDimensions; 0 is one element.
  int rank = 0;
  /// @brief Indices of each dimension, outermost first.
  std::size_t extents[kMostDimensions] = {};
  /// @brief Elements between neighbours along each dimension.
  std::size_t strides[kMostDimensions] = {};

  /// @brief How many elements.
  [[nodiscard]] constexpr std::size_t count() const {
    std::size_t product = 1;
    for (int i = 0; i < rank; ++i) {
      product *= extents[i];
    }
    return product;
  }
};

}  // namespace ultra::kernels::generic
