#pragma once
/// @file
/// MpiMonitor: how a rank that is a process waits, and learns that another one has failed.

#include <cstdint>
#include <thread>

#include "common/comm/backend/mpi/session.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/engine/rank_monitor.hpp"

namespace ultra::comm::mpi {

/// @brief One rank's view of the other processes during one run.
///
/// MPI moves messages only while it is called, and no process can wake another: a waiting rank
/// looks again and again, less often the longer it has waited. events() counts the messages that
/// this rank's own looking has moved.
class MpiMonitor final : public RankMonitor {
 public:
  /// @param run  its number. Made by the rank's own thread.
  MpiMonitor(Session& session, std::uint32_t run)
      : session_(session), run_(run), owner_(std::this_thread::get_id()) {}

  [[nodiscard]] int world_rank() const override { return session_.rank(); }
  [[nodiscard]] std::uint64_t events() const override { return session_.moved(); }
  void sleep(std::uint64_t seen, Clock::time_point until) override;
  /// Nothing to do: sleeps are shorter than a wake-up would be of use for.
  void wake() override {}
  /// None: sleep() itself looks often at first.
  [[nodiscard]] int spins() const override { return 0; }
  /// @throws RankFailed for a rank that threw or died; Interrupted when the launcher or the user
  /// stops this process.
  void check(const std::string& doing) override;
  /// Tells the others of this host, but never throws: no process sees that all others wait, too.
  /// Time-outs end a deadlock.
  void report_blocked(std::uint64_t /*seen*/, const std::string& doing) override {
    session_.watch().say(doing);
  }
  void report_moving() override { session_.watch().say({}); }
  [[nodiscard]] std::vector<RankActivity> activities() override {
    return session_.watch().activities();
  }

 private:
  /// A thread's wait for the next message.
  struct Wait {
    std::uint64_t seen = 0;
    Clock::time_point begin{};
    Clock::time_point last_look{};
  };

  Session& session_;
  std::uint32_t run_;
  std::thread::id owner_;
  Wait own_wait_;
  Wait wait_beside_;  // of the progress thread
};

/// @brief The error of a rank that `failure` of another one has ended.
/// @param doing  what this rank waited in.
[[nodiscard]] RankFailed failed_by(const Failure& failure, int rank, const std::string& doing);

/// @brief Looks whether a process has died: then MPI is given up, and the run has failed.
/// @throws Interrupted when nobody has died and this process is told to stop.
void look_for_the_dead(Session& session, std::uint32_t run);

}  // namespace ultra::comm::mpi
