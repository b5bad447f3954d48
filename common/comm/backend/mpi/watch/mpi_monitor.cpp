#include "common/comm/backend/mpi/watch/mpi_monitor.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::comm::mpi {
namespace {

using std::chrono::microseconds;

/// How a thread sleeps between its looks: a part of the wait so far, within limits.
struct Sleep {
  microseconds eager;     // until then it does not sleep, but lets others run
  microseconds shortest;  // of a sleep
  microseconds longest;   // of a sleep
  int share;              // a sleep lasts the wait so far, divided by this
};

// Measured on two cores (bench/bench_mpi_progress.cpp): a wake-up costs 15 to 25 us of a core that
// computes. So the thread beside the rank's own begins with longer sleeps; transfers still hide to 95%
// and more behind computation, which loses 2 to 5%.
constexpr Sleep kOwn{microseconds(300), microseconds(20), microseconds(1000), 16};
constexpr Sleep kBeside{microseconds(0), microseconds(100), microseconds(1000), 4};
// A thread that comes back after a longer pause begins another wait.
constexpr microseconds kPause{200};

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
  const Sleep& how = is_own ? kOwn : kBeside;
  Wait& wait = is_own ? own_wait_ : wait_beside_;
  const auto now = Clock::now();
  if (events() != wait.seen || now - wait.last_look > kPause) {
    wait.begin = now;
    wait.seen = events();
  }
  const Clock::duration waited = now - wait.begin;
  if (events() == seen && waited < how.eager) {
    std::this_thread::yield();
  } else if (events() == seen) {
    sleep_exactly();
    const auto length = std::clamp<Clock::duration>(waited / how.share, how.shortest, how.longest);
    std::this_thread::sleep_until(std::min(until, now + length));
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
          fmt::format("rank {} has failed: {} (Rank {} waited in {}.)", failure.rank, failure.text,
                      rank, doing)};
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
