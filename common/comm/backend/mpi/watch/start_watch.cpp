#include "common/comm/backend/mpi/watch/start_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/interrupt.hpp"
#include "common/comm/backend/launch.hpp"
#include "common/comm/backend/mpi/watch/last_word.hpp"

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

}  // namespace

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

}  // namespace ultra::comm::mpi
