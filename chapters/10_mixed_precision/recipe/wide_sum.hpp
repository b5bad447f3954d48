#pragma once
/// @file
/// Sums over ranks whose messages have two bytes and whose additions all happen in f32.

#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {

/// @brief All get the sum of all `data`, in place, bitwise the same everywhere; rounded to its type
/// once, however many ranks there are.
///
/// Each member gets its chunk of every other member's data as it is, so no partial sum travels. An
/// algorithm whose messages are partial sums rounds once per hop, or needs messages of four bytes.
/// @param data  [n] contiguous; the order of the sum is that of the ranks.
/// Memory: n more elements.
/// Communication: n (P-1)/P elements sent per rank by an all-to-all and as many by an all-gather: the
/// ring's volume, in P - 1 messages each.
void all_reduce_wide(const Communicator& group, const Tensor& data);

}  // namespace ultra::mixed_precision
