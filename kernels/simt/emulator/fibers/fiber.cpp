// The switch, and what the sanitizers must hear of it: AddressSanitizer which stack is in use,
// ThreadSanitizer which flow of control.

#include "kernels/simt/emulator/fibers/fiber.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <mutex>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ultra::simt::emulator {

namespace context = boost::context::detail;

namespace {

// Stacks are mapped, not allocated: their guard needs pages of its own.
constexpr std::size_t kColours = 61;
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kMappedBytes = kGuardBytes + kStackBytes;

// What a switch hands to the flow that goes on.
struct Handover {
  Fiber* from;
  Fiber* to;
};

// The handler of SIGSEGV has a stack of its own, because the fiber's is full.
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

bool Stack::guard_contains(std::uintptr_t address) const {
  const auto first = reinterpret_cast<std::uintptr_t>(bottom);
  return address < first && address >= first - kGuardBytes;
}

Stack map_stack(std::size_t number) {
  void* const mapped = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw std::bad_alloc();
  }
  if (mprotect(mapped, kGuardBytes, PROT_NONE) != 0) {
    munmap(mapped, kMappedBytes);
    throw std::bad_alloc();
  }
  auto* const first = static_cast<std::byte*>(mapped);
  return {.bottom = first + kGuardBytes,
          .top = first + kMappedBytes - number % kColours * kCacheLine};
}

void unmap_stack(const Stack& stack) noexcept { munmap(stack.bottom - kGuardBytes, kMappedBytes); }

Fiber::Fiber() {
#if defined(__SANITIZE_THREAD__)
  thread_state_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(Stack stack, void (*entry)()) : stack_(stack), entry_(entry) {
  context_ = context::make_fcontext(stack.top, stack.size(), &Fiber::start);
  known_bottom_ = stack.bottom;
  known_size_ = stack.size();
#if defined(__SANITIZE_ADDRESS__)
  // An earlier flow on this stack may have been forgotten with its frames marked.
  __asan_unpoison_memory_region(stack.bottom, stack.size());
#endif
#if defined(__SANITIZE_THREAD__)
  thread_state_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  if (entry_ != nullptr) {
    __tsan_destroy_fiber(thread_state_);
  }
#endif
}

void Fiber::before_leaving([[maybe_unused]] Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, to.known_bottom_, to.known_size_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.thread_state_, 0);
#endif
}

void Fiber::arrive(context::transfer_t transfer) {
  Fiber& from = *static_cast<Handover*>(transfer.data)->from;
  from.context_ = transfer.fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &from.known_bottom_, &from.known_size_);
#endif
}

void Fiber::came_back_by_jump() {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_start_switch_fiber(nullptr, known_bottom_, known_size_);
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(thread_state_, 0);
#endif
}

void Fiber::start(context::transfer_t transfer) {
  Fiber& self = *static_cast<Handover*>(transfer.data)->to;
  self.arrive(transfer);
  self.entry_();
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  Handover handover{.from = &from, .to = &to};
  from.before_leaving(to);
  from.arrive(context::jump_fcontext(to.context_, &handover));
}

void arm_overflow_trap(OverflowTrap* trap) {
  if (trap != nullptr) {
    thread_local const AlternateStack stack;
    install_handler();
  }
  armed_trap = trap;
}

}  // namespace ultra::simt::emulator
