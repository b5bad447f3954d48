#include "common/base/interrupt.hpp"

#include <atomic>
#include <csignal>

namespace ultra {
namespace {

// A signal handler can reach nothing but static storage; ranks that are threads all look at it.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "else a signal handler must not touch it");

void remember(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = false;
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  interrupted = false;
}

void throw_if_interrupted() {
  if (interrupted) throw Interrupted("stopped before the end; no result was written");
}

}  // namespace ultra
