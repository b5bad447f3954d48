#pragma once
/// @file
/// A barrier without a centre.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Nobody ends before everybody has begun: empty messages over distances 1, 2, 4, ...
///
/// After k rounds a position has heard, through others, from the 2^k - 1 positions before it.
/// Cost: ceil(log2 P) rounds, no elements.
/// Source: Hensgen, Finkel, Manber 1988, "Two algorithms for barrier synchronization".
[[nodiscard]] comm::Lane dissemination_barrier(const comm::Group& group);

}  // namespace ultra::collectives
