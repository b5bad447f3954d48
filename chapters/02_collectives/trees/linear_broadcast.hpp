#pragma once
/// @file
/// Broadcast without a tree: the root serves everybody itself.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief The root sends the elements of `range` to each of the others in turn: the naive baseline.
/// @param root  a position of the group.
/// Cost: P - 1 rounds; the root sends n (P-1) elements, the others nothing.
[[nodiscard]] comm::Lane linear_broadcast(const comm::Group& group, Range range, int root);

}  // namespace ultra::collectives
