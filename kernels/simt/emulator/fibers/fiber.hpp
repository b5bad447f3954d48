#pragma once
/// @file
/// A thread of a kernel: a stack of its own, and a switch from one to the next in nanoseconds.
///
/// Boost.Context's fcontext does the switch; ucontext would take 25 times as long, because it saves
/// the signal mask. The sanitizers are told of every switch. Each stack has a guard behind it, so that an
/// overflow is a fault of that thread and not a change of another one's variables.

#include <boost/context/detail/fcontext.hpp>
#include <csetjmp>
#include <cstddef>
#include <cstdint>

namespace ultra::simt::emulator {

/// @brief The usable part of a stack; it grows down from `top`.
struct Stack {
  /// @brief Lowest usable byte.
  std::byte* bottom = nullptr;
  /// @brief Behind the highest usable byte.
  std::byte* top = nullptr;

  /// @brief Usable bytes.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(top - bottom); }
  /// @brief Whether an address lies in the guard below this stack.
  [[nodiscard]] bool guard_contains(std::uintptr_t address) const;
};

/// @brief Bytes of a thread's stack; a kernel's local variables and the messages of faults fit.
inline constexpr std::size_t kStackBytes = std::size_t{128} * 1024;

/// @brief Bytes of the guard below each stack.
inline constexpr std::size_t kGuardBytes = std::size_t{64} * 1024;

/// @brief Maps a stack; pages that are never touched take no memory. `number` shifts the top by some
/// cache lines: stacks at equal offsets in their pages would all use the same sets of the cache.
/// @throws std::bad_alloc
[[nodiscard]] Stack map_stack(std::size_t number);

/// @brief Gives a stack back.
void unmap_stack(const Stack& stack) noexcept;

/// @brief A flow of control that is suspended, or runs.
class Fiber {
 public:
  /// @brief The flow of control that calls this: an operating system's thread.
  Fiber();
  /// @brief A flow on its own stack that will call `entry`, which must never return.
  Fiber(Stack stack, void (*entry)());
  /// @brief Forgets the flow, wherever it is suspended: what lives on its stack is not destroyed.
  ~Fiber();
  /// @brief Its address is known to the flow itself.
  Fiber(const Fiber&) = delete;
  /// @brief Its address is known to the flow itself.
  Fiber& operator=(const Fiber&) = delete;

  /// @brief Suspends `from`, which is running, and goes on with `to`.
  static void switch_to(Fiber& from, Fiber& to);

  /// @brief Its stack; empty for an operating system's thread.
  [[nodiscard]] const Stack& stack() const { return stack_; }
  /// @brief Tells the sanitizers that this flow runs again after a jump that was no switch.
  void came_back_by_jump();

 private:
  static void start(boost::context::detail::transfer_t transfer);
  void arrive(boost::context::detail::transfer_t transfer);
  void before_leaving(Fiber& to);

  boost::context::detail::fcontext_t context_ = nullptr;
  Stack stack_;
  void (*entry_)() = nullptr;
  // What the sanitizers keep of a suspended flow.
  void* fake_stack_ = nullptr;
  const void* known_bottom_ = nullptr;
  std::size_t known_size_ = 0;
  void* thread_state_ = nullptr;
};

/// @brief Where to go when a stack overflows, while a launch runs on this thread: the fault of the
/// processor becomes a jump back to the engine.
struct OverflowTrap {
  /// @brief Set by sigsetjmp() in the frame that runs the launch.
  sigjmp_buf environment;
  /// @brief Whether a faulty address is an overflow of the running fiber; called by the handler of
  /// the signal.
  bool (*is_overflow)(void* engine, std::uintptr_t address);
  /// @brief Its first argument.
  void* engine;
};

/// @brief Arms the trap of this thread of the operating system; null disarms it. Other faults stay
/// what they were before.
void arm_overflow_trap(OverflowTrap* trap);

}  // namespace ultra::simt::emulator
