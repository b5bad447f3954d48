#pragma once
/// @file
/// Stacks of fibers: each with a guard behind it, so that an overflow is a fault of that thread and
/// not a change of another one's variables.

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

}  // namespace ultra::simt::emulator
