#pragma once
/// @file
/// The lengths of the ladder packed_sequences.

#include <cstdint>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief The lengths of the sequences of a problem, in their order in memory: the quantiles of an
/// exponential distribution, most of them short and few long, in a random order. Their sum does not
/// depend on the seed.
[[nodiscard]] std::vector<int> sequence_lengths(const Sizes& sizes, std::uint64_t seed);

}  // namespace ultra::ladders
