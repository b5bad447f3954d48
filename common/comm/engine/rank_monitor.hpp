#pragma once
/// @file
/// RankMonitor: how a waiting rank learns that something has happened, or never will.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/comm/engine/rank_activity.hpp"

namespace ultra::comm {

/// @brief One rank's view of the others while it waits.
class RankMonitor {
 public:
  /// What deadlines are measured with.
  using Clock = std::chrono::steady_clock;

  virtual ~RankMonitor() = default;

  /// @brief This rank's number in the world.
  [[nodiscard]] virtual int world_rank() const = 0;

  /// @brief A count that grows when a message for this rank is there or one of its own was taken.
  /// Stays 0 where nobody can tell.
  [[nodiscard]] virtual std::uint64_t events() const = 0;

  /// @brief Sleeps until events() differs from `seen` or `until` has come, whichever is first.
  virtual void sleep(std::uint64_t seen, Clock::time_point until) = 0;

  /// @brief Wakes this rank's own sleeping threads.
  virtual void wake() = 0;

  /// @brief How often a waiting rank looks again before it sleeps.
  [[nodiscard]] virtual int spins() const = 0;

  /// @brief Throws RankFailed when another rank has failed or died, Interrupted when the program is
  /// told to stop.
  /// @param doing  what this rank waits in, for the message.
  virtual void check(const std::string& doing) = 0;

  /// @brief Says that this rank waits and, having seen `seen` events, cannot move by itself.
  /// @throws Deadlock when the same is true of all ranks.
  virtual void report_blocked(std::uint64_t seen, const std::string& doing) = 0;

  /// @brief Takes report_blocked back.
  virtual void report_moving() = 0;

  /// @brief What all ranks do just now, by rank, as far as this one can see.
  [[nodiscard]] virtual std::vector<RankActivity> activities() = 0;
};

}  // namespace ultra::comm
