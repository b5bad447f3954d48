#pragma once
/// @file
/// What reductions over ranks do to elements.

#include <span>

#include "kernels/generic/numbers.hpp"

namespace ultra::kernels::generic {

/// @brief How two elements become one.
enum class Combination : unsigned char { kSum, kMax, kMin, kAverage };

/// @brief The most sources, and the most targets, of combine_all().
inline constexpr std::size_t kMostRanks = 64;

/// @brief into[i] = into[i] op from[i]; an average is summed here and divided at the end, by divide().
/// Elements of two bytes are combined in f32 and rounded once. Both have one type.
template <simt::Executor executor>
void combine(Combination op, const Target& into, const Source& from, std::size_t count,
             const simt::Queue& queue);

/// @brief Combines from[0][i], from[1][i], ... in that order and stores the result in every into[k][i].
/// Elements of two bytes are combined in f32 over all sources and rounded once; an average is divided
/// by the number of sources. Targets may be sources; they do not overlap otherwise.
/// @param number  the type of all of them.
/// @throws std::invalid_argument for no source, and above kMostRanks sources or targets.
template <simt::Executor executor>
void combine_all(Combination op, Number number, std::span<void* const> into,
                 std::span<const void* const> from, std::size_t count, const simt::Queue& queue);

/// @brief data[i] = data[i] / divisor; integers are divided as C++ does.
template <simt::Executor executor>
void divide(const Target& data, std::size_t count, int divisor, const simt::Queue& queue);

}  // namespace ultra::kernels::generic
