#pragma once
/// @file
/// How the profile takes time.

#include <functional>

#include "common/comm/communicator.hpp"

namespace ultra::profile {

/// @brief Seconds of one call on the slowest rank, while all ranks make it.
///
/// Rounds are shorter than what an operating system lets a thread run in one piece, and there are
/// many: the fastest one was not disturbed by other programs.
/// Collective. An interrupt ends it between two rounds.
[[nodiscard]] double seconds_of(const Communicator& world, const std::function<void()>& call);

/// @brief Seconds of one of `times` exchanges that all ranks make at the same time, each with its
/// group, on the rank that takes longest: groups share their machines' links. The fastest of several
/// rounds counts. Collective over world.
[[nodiscard]] double exchange_seconds(const Communicator& world,
                                      const std::function<void()>& exchange, int times);

/// @brief Seconds of a piece of work, in the median of several rounds, on the rank that takes longest.
/// Collective over world.
[[nodiscard]] double typical_seconds(const Communicator& world, const std::function<void()>& work);

/// @brief By how much the slowest rank's time of a piece of work lies above the mean of all ranks, as
/// the standard deviation of a replay::Cluster: mean excess over sqrt(2 ln ranks). Collective.
/// @param work  of some tens of milliseconds.
[[nodiscard]] double deviation_of(const Communicator& world, const std::function<void()>& work);

}  // namespace ultra::profile
