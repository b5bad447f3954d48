#pragma once
/// @file
/// What ranks do while another one waits for them: tells a machine with too much to do from a hang.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ultra::comm {

/// @brief What a thread has had of the machine since it began, in seconds.
struct ProcessorTime {
  double ran = 0;     ///< on a core
  double queued = 0;  ///< ready to run, while others had the cores
};

/// @brief What the system says of a thread of any process of this host; nothing when it does not.
[[nodiscard]] std::optional<ProcessorTime> processor_time(int process, int thread);

/// @brief What one rank does.
struct RankActivity {
  /// How far this can be seen.
  enum class State : std::uint8_t {
    kUnknown,   ///< it runs on another host
    kComputes,  ///< it does not wait for other ranks
    kWaits,     ///< it does
    kFinished,  ///< its part of the run is over
  };

  State state = State::kUnknown;           ///< what it does
  std::string waits_in = {};               ///< "all_reduce #3 of 'dp': rank 2 has not arrived"
  std::optional<ProcessorTime> processor;  ///< of its own thread
};

/// @brief What ranks did while one of them waited in vain, and what follows from it: sentences.
/// @param waiting  that rank.
/// @param before   by rank, early in the wait; empty: the wait was too short to look.
/// @param now      by rank.
/// @param seconds  between the two.
[[nodiscard]] std::string tell_activities(int waiting, const std::vector<RankActivity>& before,
                                          const std::vector<RankActivity>& now, double seconds);

}  // namespace ultra::comm
