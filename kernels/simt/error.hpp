#pragma once
/// @file
/// What is wrong with a kernel or its launch, as an exception: the emulator's findings and the CUDA
/// run time's.

#include <stdexcept>
#include <string>

namespace ultra::simt {

/// @brief The kind of a fault, so that a test or a hint can name it.
enum class Fault {
  /// @brief A launch that no GPU accepts: too many threads, an empty grid, too much shared memory.
  kLaunch,
  /// @brief An access outside every buffer, or outside the kernel's shared memory.
  kOutOfBounds,
  /// @brief An access whose address is not a multiple of its size.
  kMisaligned,
  /// @brief A global accessor on shared memory, or the other way round.
  kWrongMemory,
  /// @brief A barrier that not all threads of the block reach, or several at once.
  kBarrier,
  /// @brief A warp operation that its lanes do not all reach.
  kWarpOperation,
  /// @brief A mask that names exited lanes or leaves out its caller, or a shuffle from outside it.
  kMask,
  /// @brief Two threads at one place of shared memory with no barrier between them.
  kRace,
  /// @brief A read of memory that nobody has written.
  kUninitialised,
  /// @brief A thread that waits for another by reading again and again, in vain.
  kSpinWait,
  /// @brief A thread whose local variables do not fit its stack.
  kStackOverflow,
  /// @brief A kernel that touches what the one before it may still write or read.
  kOrder,
  /// @brief A status of the CUDA run time.
  kCuda,
};

/// @brief A fault of a kernel or its launch. The message names the kernel, block, thread and line,
/// what was found, what was expected and what to do.
class SimtError : public std::runtime_error {
 public:
  /// @brief A fault with its whole message.
  SimtError(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}

  /// @brief The kind of the fault.
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

}  // namespace ultra::simt
