#pragma once
/// @file
/// Rabenseifner's all-reduce: few rounds and little volume at once, for any group size.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief All-reduce by recursive halving and doubling (halving_doubling.hpp) on the largest power of
/// two of members; the others are folded in and out (fold.hpp).
///
/// Cost: 2 log2 P rounds and 2 n (P-1)/P elements sent per rank for powers of two; else, with C the
/// largest power of two below P, 2 log2 C + 2 rounds, and n elements more for those that fold.
/// Source: Rabenseifner 2004, "Optimization of collective reduction operations".
/// Deviation: in the paper the two members that fold each combine one half, which shares the work;
/// here one of them combines everything, which takes one step less.
[[nodiscard]] comm::Lane rabenseifner_all_reduce(const comm::Group& group, Range range);

}  // namespace ultra::collectives
