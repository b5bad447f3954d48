#include "common/comm/backend/mpi/mpi_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/backend/launch.hpp"
#include "common/comm/backend/mpi/mpi_transport.hpp"
#include "common/comm/backend/mpi/session.hpp"
#include "common/comm/backend/mpi/watch/last_word.hpp"
#include "common/comm/backend/mpi/watch/mpi_monitor.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/engine/roll_call.hpp"

namespace ultra::comm::mpi {
namespace {

using Clock = RankMonitor::Clock;
using Seconds = std::chrono::duration<double>;

// How long a rank that has not noticed a failure may go on to compute. At least so long, too, one
// waits for ranks at the beginning and the end, where time-outs end the whole program's runs.
constexpr Seconds kPatience{5};
// What rank 0 needs to say why the program ends.
constexpr auto kTimeOfRankZero = std::chrono::milliseconds(300);

/// While it lives, SIGTERM, by which mpirun ends the others when a process has died, does not end
/// this one before it has said which. A guard of main's own is left alone.
class StopGuard {
 public:
  explicit StopGuard(const Session& session) : session_(session) {
    struct sigaction now {};
    sigaction(SIGTERM, nullptr, &now);
    if (now.sa_handler == SIG_DFL) guard_ = std::make_unique<InterruptGuard>();
  }
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;
  ~StopGuard() {
    if (!guard_ || session_.given_up().empty()) return;
    // The program is about to report the death and to end. mpirun's signal may still be on its way.
    sigset_t stop;
    sigset_t before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    guard_.reset();
    std::signal(SIGTERM, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  const Session& session_;
  std::unique_ptr<InterruptGuard> guard_;
};

/// One call of run_ranks on one process.
class Run {
 public:
  Run(Session& session, int world_size, Seconds timeout)
      : session_(session),
        world_size_(world_size),
        timeout_(timeout),
        number_(session.notices().standings()[static_cast<std::size_t>(session.rank())].begun + 1) {
  }

  /// Waits until all processes are here, so that making a communicator cannot block for long.
  void begin() {
    {
      const auto lock = session_.lock();
      session_.notices().tell_begin(number_, world_size_);
    }
    await(
        "the beginning of run_ranks",
        [this](const Notices::Standing& standing) {
          return standing.begun >= number_ || standing.left;
        },
        std::max(timeout_, kPatience));
    const auto lock = session_.lock();
    expect_all_present();
    for (std::size_t rank = 0; rank < standings().size(); ++rank) {
      if (standings()[rank].world_size == world_size_) continue;
      throw CommMismatch(fmt::format("rank {} asks for a world of {} ranks, rank {} for {}",
                                     session_.rank(), world_size_, rank,
                                     standings()[rank].world_size));
    }
  }

  /// Runs this rank's part.
  void run(const RankBody& body) {
    if (is_bystander()) return;
    try {
      std::vector<int> worlds(static_cast<std::size_t>(world_size_));
      std::iota(worlds.begin(), worlds.end(), 0);
      const MPI_Comm comm = make_world(worlds);
      body(std::make_unique<MpiTransport>(session_, comms_, comm, worlds),
           std::make_shared<MpiMonitor>(session_, number_));
    } catch (const Interrupted&) {
      error_ = std::current_exception();
      name_the_dead();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  /// Waits until all have ended; throws this rank's error, or another's.
  void end() {
    tell_end();
    try {
      await(
          "the end of run_ranks",
          [this](const Notices::Standing& standing) { return standing.ended >= number_; },
          is_bystander() ? Seconds::max() : std::max(timeout_, kPatience));
    } catch (...) {
      if (!error_) throw;  // else this rank's own error tells more
    }
    if (error_) std::rethrow_exception(error_);
    const auto lock = session_.lock();
    if (const auto failure = session_.notices().failure_of(number_)) {
      throw failed_by(*failure, session_.rank(), "the end of run_ranks");
    }
    comms_->free_all();
  }

 private:
  const std::vector<Notices::Standing>& standings() const { return session_.notices().standings(); }

  /// Throws when a program has ended instead of beginning this run. Tells the others before this
  /// program ends too: the first one to be missed is the guilty one, everywhere.
  void expect_all_present() {
    const auto gone = std::ranges::find_if(standings(), &Notices::Standing::left);
    if (gone == standings().end()) return;
    const auto rank = static_cast<int>(gone - standings().begin());
    session_.notices().note_failure(
        number_, {.rank = rank, .kind = ErrorKind::kComm, .text = "its program has ended"});
    const auto failure = session_.notices().failure_of(number_);
    session_.notices().tell_end(number_, failure);
    throw failed_by(*failure, session_.rank(), "the beginning of run_ranks");
  }

  MPI_Comm make_world(const std::vector<int>& worlds) {
    const auto lock = session_.lock();
    return comms_->make(MPI_COMM_WORLD, worlds, 0);
  }

  bool is_bystander() const { return session_.rank() >= world_size_; }

  bool has_failed() const { return session_.notices().failure_of(number_).has_value(); }

  /// A stopped rank was stopped for a reason.
  void name_the_dead() {
    try {
      MpiMonitor(session_, number_).check("its own work");
    } catch (const RankFailed&) {
      error_ = std::current_exception();
    } catch (const Interrupted&) {
      // Nobody has died: the user stops the program.
    }
  }

  void tell_end() {
    const auto lock = session_.lock();
    session_.notices().poll();
    // A failure that is known already is the cause of this rank's own error.
    std::optional<Failure> failure = session_.notices().failure_of(number_);
    if (error_ && !failure)
      failure =
          Failure{.rank = session_.rank(), .kind = kind_of(error_), .text = message_of(error_)};
    session_.notices().tell_end(number_, failure);
  }

  /// Waits, politely, until `is_there` is true of all processes.
  void await(const std::string& what, const std::function<bool(const Notices::Standing&)>& is_there,
             Seconds patience) {
    MpiMonitor monitor(session_, number_);
    Clock::time_point since = Clock::now();
    const std::vector<RankActivity> at_first = monitor.activities();
    const Clock::time_point looked = since;
    bool had_failed = false;
    while (true) {
      const std::vector<int> missing = missing_ranks(is_there);
      if (missing.empty()) return;
      const std::string doing = fmt::format("{}: {}", what, have(missing, "not arrived"));
      expect_all_alive(doing);
      if (has_failed() && !had_failed) {
        had_failed = true;
        since = Clock::now();
        patience = kPatience;
      }
      if (Clock::now() - since > patience) {
        session_.give_up(doing);
        throw CommTimeout(fmt::format(
            "rank {} has waited {:g} s for {}.{}", session_.rank(), patience.count(), doing,
            tell_activities(session_.rank(), at_first, monitor.activities(),
                            Seconds(Clock::now() - looked).count())));
      }
      monitor.sleep(session_.moved(), Clock::time_point::max());
    }
  }

  std::vector<int> missing_ranks(const std::function<bool(const Notices::Standing&)>& is_there) {
    const auto lock = session_.lock();
    session_.notices().poll();
    session_.tend();
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < standings().size(); ++rank) {
      if (!is_there(standings()[rank])) missing.push_back(static_cast<int>(rank));
    }
    return missing;
  }

  /// A rank that has thrown still ends; one that has died never does.
  void expect_all_alive(const std::string& doing) {
    const auto lock = session_.lock();
    look_for_the_dead(session_, number_);
    if (session_.given_up().empty()) return;
    const auto failure = session_.notices().failure_of(number_);
    ensure(failure.has_value(), "MPI is given up for a reason");
    throw failed_by(*failure, session_.rank(), doing);
  }

  Session& session_;
  int world_size_;
  Seconds timeout_;
  std::uint32_t number_;
  std::shared_ptr<RunCommunicators> comms_ = std::make_shared<RunCommunicators>();
  std::exception_ptr error_;
};

/// Whether rank 0 has ended its part of the last run, and so speaks of its end itself.
bool rank_zero_knows(Session& session) {
  const auto lock = session.lock();
  session.notices().poll();
  const auto& standings = session.notices().standings();
  const auto& own = standings[static_cast<std::size_t>(session.rank())];
  return own.begun > 0 && (standings[0].ended >= own.begun || standings[0].left);
}

/// Another MPI's mpirun starts processes that do not find each other: each is a world of its own.
void expect_connected(int world_size, int processes) {
  if (world_size <= processes) return;
  throw ConfigError(
      fmt::format("MPI connects {} process{}, not the {} that the launcher says it has started. "
                  "Start it with the mpirun of the MPI that it was built with.",
                  processes, processes == 1 ? "" : "es", find_launch().value_or(Launch{}).size));
}

}  // namespace

std::optional<int> launched_world_size() {
  const std::optional<Launch> launch = find_launch();
  if (!launch) return std::nullopt;
  return launch->size;
}

int launched_rank() { return find_launch().value_or(Launch{}).rank; }

bool reports_for_all() {
  if (launched_rank() == 0) {
    static_cast<void>(take_last_word());
    return true;
  }
  Session* const session = Session::find();
  const bool zero_is_dead = session != nullptr && session->watch().has_died(0);
  // mpirun ends all processes when one has ended with an error: rank 0 must have had its say.
  if (!zero_is_dead) std::this_thread::sleep_for(kTimeOfRankZero);
  return !(session != nullptr && rank_zero_knows(*session)) && take_last_word();
}

void expect_usable() { expect_told_ranks(); }

void run_ranks(int world_size, const RankBody& body, Seconds timeout) {
  Session& session = Session::start(std::max(timeout, kPatience));
  expect_connected(world_size, session.size());
  if (!session.given_up().empty()) {
    throw CommError(
        fmt::format("no ranks can run any more in this program: {}", session.given_up()));
  }
  const StopGuard guard(session);
  Run run(session, world_size, timeout);
  run.begin();
  run.run(body);
  run.end();
}

}  // namespace ultra::comm::mpi
