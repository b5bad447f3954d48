#include "common/comm/backend/mpi/mpi_monitor.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::comm::mpi {
namespace {

using std::chrono::microseconds;

// Measured with ranks on as many cores as there are: a message comes in time, and a core that computes
// loses 2 to 3% to the thread that looks for messages beside it.
constexpr microseconds kEager{300};    // how long the rank's own thread looks without sleeping
constexpr microseconds kShortest{20};  // its first sleep
constexpr microseconds kShortestBeside{50};  // the first sleep of a thread beside it
constexpr microseconds kLongest{1000};
constexpr int kShare = 16;           // a sleep lasts this part of the wait so far
constexpr microseconds kPause{200};  // who has not slept for so long begins another wait

/// The kernel rounds sleeps up by 50 us unless a thread asks it not to.
void sleep_exactly() {
  thread_local bool asked = false;
  if (asked) return;
  asked = true;
  prctl(PR_SET_TIMERSLACK, 1UL);
}

}  // namespace

void MpiMonitor::sleep(std::uint64_t seen, Clock::time_point until) {
  const bool is_own = std::this_thread::get_id() == owner_;
  Wait& wait = is_own ? own_wait_ : wait_beside_;
  const auto now = Clock::now();
  if (events() != wait.seen || now - wait.last_look > kPause) {
    wait.begin = now;
    wait.seen = events();
  }
  if (events() == seen) {
    const auto waited = now - wait.begin;
    if (is_own && waited < kEager) {
      std::this_thread::yield();
    } else {
      sleep_exactly();
      const Clock::duration shortest = is_own ? kShortest : kShortestBeside;
      const Clock::duration longest = kLongest;
      std::this_thread::sleep_until(
          std::min(until, now + std::clamp(waited / kShare, shortest, longest)));
    }
  }
  wait.last_look = Clock::now();
}

void MpiMonitor::check(const std::string& doing) {
  const auto lock = session_.lock();
  session_.notices().poll();
  if (!session_.notices().failure_of(run_)) look_for_the_dead(session_, run_);
  const std::optional<Failure> failure = session_.notices().failure_of(run_);
  if (failure) throw failed_by(*failure, world_rank(), doing);
}

RankFailed failed_by(const Failure& failure, int rank, const std::string& doing) {
  return {failure.rank, failure.kind,
          fmt::format("rank {} has failed while rank {} waited in {}: {}", failure.rank, rank,
                      doing, failure.text)};
}

void look_for_the_dead(Session& session, std::uint32_t run) {
  std::optional<ProcessWatch::Death> death = session.watch().death();
  try {
    throw_if_interrupted();
  } catch (const Interrupted&) {
    // mpirun stops all processes when one has died: that one is the news.
    death = session.watch().death_now();
    if (!death) throw;
  }
  if (!death) return;
  session.give_up(fmt::format("rank {} has died", death->rank));
  session.notices().note_failure(
      run, {.rank = death->rank,
            .kind = ErrorKind::kComm,
            .text = fmt::format("its process {} was killed or left without a word. See what it "
                                "printed last, and what mpirun says of it.",
                                death->pid)});
}

}  // namespace ultra::comm::mpi
