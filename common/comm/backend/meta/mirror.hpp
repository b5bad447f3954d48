#pragma once
/// @file
/// mirror: what a rank gets from members that are all like itself.

#include "common/comm/collectives/collective_call.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::comm {

/// @brief Writes the result of a collective on the host's memory as if every member were like this one.
///
/// A sum is size times this rank's own, an average, largest or smallest its own; what is gathered is this
/// rank's part again and again; what an all-to-all brings from a member is what goes to it. Where a part
/// that comes is larger than the one that it is made of, and where this rank has nothing of its own (a
/// scatter from elsewhere), the rest are zeros. A broadcast leaves what is there.
void mirror(const CollectiveCall& call, calls::Member member);

/// @brief Zeros into a contiguous tensor of the host.
void clear(const Tensor& tensor);

}  // namespace ultra::comm
