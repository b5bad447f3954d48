#pragma once
/// @file
/// All-reduce by recursive doubling: the butterfly on whole messages.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief In each round every member exchanges all it has with a partner, twice as far away as the
/// one before, and combines: after k rounds it holds the reduction of 2^k members.
///
/// A message arrives in scratch memory, since the block that it is to be combined with is being
/// sent. Partners compute a + b and b + a, which are the same bits: all members end equal. Any group
/// size: members beyond the largest power of two are folded in and out (fold.hpp).
/// Cost: log2 P rounds, ceil(log2 P) + 1 when P is no power of two; n floor(log2 P) elements sent
/// per rank, n more for those that fold.
/// Memory: n elements of scratch.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Schedule recursive_doubling_all_reduce(const comm::Group& group, Range range);

}  // namespace ultra::collectives
