// The handler of SIGSEGV. It needs a stack of its own, because the fiber's is full.

#include "kernels/simt/emulator/fibers/overflow.hpp"

#include <signal.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace ultra::simt::emulator {
namespace {

constinit thread_local OverflowTrap* armed_trap = nullptr;
struct sigaction previous_action {};

void on_fault(int number, siginfo_t* info, void* context) {
  OverflowTrap* const trap = armed_trap;
  if (trap != nullptr &&
      trap->is_overflow(trap->engine, reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    siglongjmp(trap->environment, 1);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(number, info, context);
  } else {
    // On return, the instruction faults again, and the process ends as it would have.
    sigaction(number, &previous_action, nullptr);
  }
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_action);
  });
}

// A stack for the handler, for as long as the thread lives; a sanitizer may have given it one.
class AlternateStack {
 public:
  AlternateStack() {
    stack_t present{};
    if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) != 0) {
      stack_t own{};
      own.ss_sp = storage_.data();
      own.ss_size = storage_.size();
      is_ours_ = sigaltstack(&own, nullptr) == 0;
    }
  }
  ~AlternateStack() {
    if (is_ours_) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  std::array<std::byte, std::size_t{64} * 1024> storage_;
  bool is_ours_ = false;
};

}  // namespace

void arm_overflow_trap(OverflowTrap* trap) {
  if (trap != nullptr) {
    thread_local const AlternateStack stack;
    install_handler();
  }
  armed_trap = trap;
}

}  // namespace ultra::simt::emulator
