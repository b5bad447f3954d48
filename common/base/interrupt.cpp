#include "common/base/interrupt.hpp"

#include <csignal>

namespace ultra {
namespace {

// A signal handler can reach nothing but static storage.
volatile std::sig_atomic_t interrupted = 0;

void remember(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  interrupted = 0;
}

void throw_if_interrupted() {
  if (interrupted != 0) throw Interrupted("stopped before the end; no file was written");
}

}  // namespace ultra
