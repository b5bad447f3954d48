#pragma once
/// @file
/// How a reduction combines elements, and the vectorised loops that do it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/tensor/dtype.hpp"

namespace ultra {

/// @brief How a reduction combines the ranks' elements.
enum class ReduceOp : std::uint8_t { kSum, kMax, kMin, kAverage };

/// @brief "sum", "max", "min" or "average".
[[nodiscard]] std::string_view to_string(ReduceOp op);

}  // namespace ultra

namespace ultra::comm {

/// @brief What a reduction does to each element: operation and element type.
struct Combine {
  DType dtype;  ///< of both operands
  ReduceOp op;  ///< an average is summed here and divided once at the end, by divide()
  bool operator==(const Combine&) const = default;
};

/// @brief into[i] = into[i] op from[i] for `count` elements; the two do not overlap.
///
/// Elements of two bytes are combined in f32, and each result is rounded once.
void combine(const Combine& how, void* into, const void* from, std::size_t count);

/// @brief Combines `from[0][i]`, `from[1][i]`, ... in that order and stores the result in every
/// `into[k][i]`: one pass over memory.
///
/// Elements of two bytes are summed in f32 over all sources and rounded once.
/// An average is divided by the number of sources. Outputs may be sources; they do not overlap
/// otherwise.
void combine_all(const Combine& how, std::span<void* const> into, std::span<const void* const> from,
                 std::size_t count);

/// @brief data[i] = data[i] / divisor.
void divide(DType dtype, void* data, std::size_t count, int divisor);

}  // namespace ultra::comm
