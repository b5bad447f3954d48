#pragma once
/// @file
/// CUDA's atomics under CUDA's names, for the emulator. The threads of a launch take turns, so a read
/// and a write with nothing between are atomic as they are. Each returns what was there before.

#include <type_traits>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::simt::emulator {

/// @brief Replaces the value at `address` by `update` of it, and returns what was there.
template <Executor executor, typename T, typename Update>
T update_atomically(T* address, SourceLine place, Update update) {
  if constexpr (executor == Executor::kChecked) {
    observe({.operation = Operation::kAtomic,
             .space = MemorySpace::kAny,
             .address = address,
             .size = sizeof(T),
             .alignment = alignof(T),
             .value = nullptr,
             .place = place});
  }
  const T before = *address;
  const T after = update(before);
  *address = after;
  // Also in the fast emulator: a lock that is taken is waited for by trying again and again.
  after_atomic(address, before != after, place);
  return before;
}

}  // namespace ultra::simt::emulator

/// @brief Adds; float, double, int, unsigned and unsigned long long.
template <typename T, ultra::simt::Executor executor = ultra::simt::kExecutor>
T atomicAdd(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  return ultra::simt::emulator::update_atomically<executor>(
      address, {.file = file, .line = line},
      [value](T before) { return static_cast<T>(before + value); });
}

/// @brief Keeps the larger value.
template <typename T, ultra::simt::Executor executor = ultra::simt::kExecutor>
T atomicMax(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  return ultra::simt::emulator::update_atomically<executor>(
      address, {.file = file, .line = line},
      [value](T before) { return before < value ? value : before; });
}

/// @brief Keeps the smaller value.
template <typename T, ultra::simt::Executor executor = ultra::simt::kExecutor>
T atomicMin(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  return ultra::simt::emulator::update_atomically<executor>(
      address, {.file = file, .line = line},
      [value](T before) { return value < before ? value : before; });
}

/// @brief Replaces the value.
template <typename T, ultra::simt::Executor executor = ultra::simt::kExecutor>
T atomicExch(T* address, std::type_identity_t<T> value, const char* file = __builtin_FILE(),
             int line = __builtin_LINE()) {
  return ultra::simt::emulator::update_atomically<executor>(address, {.file = file, .line = line},
                                                            [value](T) { return value; });
}

/// @brief Replaces the value if it equals `expected`.
template <typename T, ultra::simt::Executor executor = ultra::simt::kExecutor>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value,
            const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return ultra::simt::emulator::update_atomically<executor>(
      address, {.file = file, .line = line},
      [expected, value](T before) { return before == expected ? value : before; });
}
