#include "common/comm/backend/mpi/session.hpp"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/interrupt.hpp"
#include "common/comm/backend/launch.hpp"
#include "common/comm/backend/mpi/watch/last_word.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::comm::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStartInterval = std::chrono::milliseconds(20);

bool is_told_to_stop() {
  try {
    throw_if_interrupted();
    return false;
  } catch (const Interrupted&) {
    return true;
  }
}

[[noreturn]] void end_process(const std::string& why) {
  if (take_last_word()) {
    std::fflush(stdout);
    fmt::print(stderr, "error: rank {} {}\n", find_launch().value_or(Launch{}).rank, why);
  }
  _exit(1);
}

/// @brief While it lives, a thread looks whether the start of MPI takes too long or the launcher ends
/// this process. Then it says so and ends the process: nothing else can leave MPI_Init.
class StartWatch {
 public:
  /// @param timeout  how long the other processes may take.
  explicit StartWatch(std::chrono::duration<double> timeout);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void watch();
  [[nodiscard]] bool has_started(std::chrono::milliseconds within);

  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool started_ = false;
  std::thread thread_;
};

StartWatch::StartWatch(std::chrono::duration<double> timeout)
    : timeout_(timeout), thread_([this] { watch(); }) {}

StartWatch::~StartWatch() {
  {
    const std::scoped_lock lock(mutex_);
    started_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool StartWatch::has_started(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, within, [this] { return started_; });
}

void StartWatch::watch() {
  const auto begin = Clock::now();
  while (!has_started(kStartInterval)) {
    if (is_told_to_stop()) {
      end_process(
          "was told to stop while MPI started: by you, or because another process had ended before "
          "it came so far. See what that one printed, and what mpirun says of it.");
    }
    if (Clock::now() - begin > timeout_) {
      end_process(fmt::format(
          "has waited {:g} s for MPI to start: not all of the {} processes have come to MPI_Init. "
          "Look at what the others do; if they are only slow, raise --timeout.",
          timeout_.count(), find_launch().value_or(Launch{}).size));
    }
  }
}

constexpr auto kLongestFinishSleep = std::chrono::milliseconds(20);
constexpr auto kLastWords = std::chrono::milliseconds(300);
constexpr auto kLastLook = std::chrono::milliseconds(20);

/// Says what the user has not said already, by mpirun's --mca or in the environment.
void prefer(const char* parameter, const char* value) {
  constexpr int kKeepTheUsers = 0;
  setenv(parameter, value, kKeepTheUsers);
}

/// Whether the system lets processes copy from each other's memory; many containers do not.
bool may_copy_between_processes() {
  int from = 1;
  int to = 0;
  const iovec local{.iov_base = &to, .iov_len = sizeof to};
  const iovec remote{.iov_base = &from, .iov_len = sizeof from};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == ssize_t{sizeof to};
}

/// Settings of Open MPI that it reads once, when it starts.
void set_parameters() {
  const char* const local_size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  // A rank that crashes must die. Open MPI's own handler would print a stack first, with memory that
  // the crash may have left in no state for that, and hang.
  prefer("OMPI_MCA_opal_signal", "");
  // Copies straight from the sender's memory need nothing of the sender, who may be computing.
  if (!may_copy_between_processes()) prefer("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (local_size != nullptr && std::atol(local_size) > cores) {
    // Ranks that wait inside MPI must leave the cores to those that compute.
    prefer("OMPI_MCA_mpi_yield_when_idle", "1");
  }
}

// Never destroyed: what still names it at exit must find it. finish_at_exit ends MPI.
Session* the_session = nullptr;

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(
      fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

Session& Session::start(std::chrono::duration<double> timeout) {
  if (the_session == nullptr) the_session = new Session(timeout);
  return *the_session;
}

Session* Session::find() { return the_session; }

Session::Session(std::chrono::duration<double> timeout) {
  const StartWatch watch_of_the_start(timeout);
  set_parameters();
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw CommError("this MPI cannot be called by a second thread, even by one at a time");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  int* highest_tag = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&highest_tag), &known);
  if (known != 0)
    tag_bits_ = static_cast<int>(std::bit_width(static_cast<unsigned>(*highest_tag) + 1U)) - 1;
  notices_ = std::make_unique<Notices>();
  watch_ = std::make_unique<ProcessWatch>(MPI_COMM_WORLD);
  std::atexit(finish_at_exit);
}

std::shared_ptr<std::byte[]> Session::take_scratch() {
  if (scratch_.empty()) return std::make_shared_for_overwrite<std::byte[]>(kScratchBytes);
  auto scratch = std::move(scratch_.back());
  scratch_.pop_back();
  return scratch;
}

void Session::return_scratch(std::shared_ptr<std::byte[]> scratch) {
  scratch_.push_back(std::move(scratch));
}

bool Session::ends_soon(MPI_Request& request) {
  const auto deadline = std::chrono::steady_clock::now() + kLastLook;
  int done = 0;
  MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  while (done == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  return done != 0;
}

void Session::bury(MPI_Request request, std::shared_ptr<const void> memory) {
  buried_.push_back({.request = request, .memory = std::move(memory)});
}

void Session::tend() {
  std::erase_if(buried_, [](Buried& buried) {
    int done = 0;
    MPI_Test(&buried.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

void Session::give_up(const std::string& why) {
  if (given_up_.empty()) given_up_ = why;
}

void Session::finish_at_exit() {
  try {
    the_session->finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "MPI could not be finished: {}\n", error.what());
  }
}

void Session::finish() {
  if (!given_up_.empty()) {
    // MPI_Finalize waits for all processes, without end when one is lost. Without it, mpirun ends the
    // others, which is then right. When the last one has ended, mpirun leaves what it has not yet
    // read of their output: let it read this one's first.
    std::this_thread::sleep_for(kLastWords);
    return;
  }
  const Lock guard = lock();
  notices_->tell_leave();
  const auto left = [](const Notices::Standing& standing) { return standing.left; };
  std::chrono::milliseconds sleep{1};
  while (!std::ranges::all_of(notices_->standings(), left)) {
    if (watch_->death()) return;
    std::this_thread::sleep_for(sleep);
    sleep = std::min(2 * sleep, kLongestFinishSleep);
    notices_->poll();
    tend();
  }
  MPI_Finalize();
}

}  // namespace ultra::comm::mpi
