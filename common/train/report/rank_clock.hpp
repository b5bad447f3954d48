#pragma once
/// @file
/// One clock for the timelines of all ranks: machines start their steady clocks at different times.

#include <chrono>
#include <span>

#include "common/comm/communicator.hpp"

namespace ultra::train {

/// @brief A question to rank 0 for its time, and the answer; all in seconds.
struct ClockReading {
  double asked = 0;     ///< by this rank's clock
  double told = 0;      ///< by rank 0's clock, between the other two moments
  double answered = 0;  ///< by this rank's clock
};

/// @brief What rank 0's clock shows minus what this rank's shows, in seconds.
///
/// From the reading with the shortest way: at most half of that is the error. 0 when every answer
/// lies between its question and its arrival: then the two are as good as the same clock, which
/// threads and processes of one machine do share.
/// Source: Cristian 1989, "Probabilistic clock synchronization".
[[nodiscard]] double clock_offset(std::span<const ClockReading> readings);

/// @brief One moment, the same on all ranks, as this rank's clock shows it.
///
/// Collective. Cost: some small messages between rank 0 and each other rank.
[[nodiscard]] std::chrono::steady_clock::time_point common_moment(const Communicator& world);

}  // namespace ultra::train
