#pragma once
/// @file
/// The accessors of memory for the emulator: each is a check, a count and a plain access; where it is to
/// be fast the plain access alone. kernels/simt/gpu/access.cuh has the same for a GPU.

#include <type_traits>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::simt::emulator {

/// @brief Checks and counts an access in the checked emulator, before it is made.
/// @param value  what will be written; null for a load.
template <Executor executor, typename T>
inline void observe_access(Operation operation, MemorySpace space, const T* address, const T* value,
                           SourceLine place) {
  if constexpr (executor == Executor::kChecked) {
    observe({.operation = operation,
             .space = space,
             .address = address,
             .size = sizeof(T),
             .alignment = alignof(T),
             .value = value,
             .place = place});
  }
}

}  // namespace ultra::simt::emulator

namespace ultra::simt {

/// @brief Loads from global memory: `ldg(&p[i])` is `p[i]`.
template <typename T, Executor executor = kExecutor>
inline T ldg(const T* address, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::observe_access<executor, T>(emulator::Operation::kLoad, emulator::MemorySpace::kGlobal,
                                        address, nullptr, {.file = file, .line = line});
  return *address;
}

/// @brief Stores to global memory: `stg(&p[i], x)` is `p[i] = x`.
template <typename T, Executor executor = kExecutor>
inline void stg(T* address, const std::type_identity_t<T>& value,
                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::observe_access<executor, T>(emulator::Operation::kStore, emulator::MemorySpace::kGlobal,
                                        address, &value, {.file = file, .line = line});
  *address = value;
}

/// @brief Loads from shared memory: `lds(&tile[i][j])` is `tile[i][j]`.
template <typename T, Executor executor = kExecutor>
inline T lds(const T* address, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::observe_access<executor, T>(emulator::Operation::kLoad, emulator::MemorySpace::kShared,
                                        address, nullptr, {.file = file, .line = line});
  return *address;
}

/// @brief Stores to shared memory: `sts(&tile[i][j], x)` is `tile[i][j] = x`.
template <typename T, Executor executor = kExecutor>
inline void sts(T* address, const std::type_identity_t<T>& value,
                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::observe_access<executor, T>(emulator::Operation::kStore, emulator::MemorySpace::kShared,
                                        address, &value, {.file = file, .line = line});
  *address = value;
}

/// @brief A condition at which the lanes of a warp may part: `if (branch(i % 2 == 0))`.
template <Executor executor = kExecutor>
inline bool branch(bool condition, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if constexpr (executor == Executor::kChecked) {
    emulator::observe_branch(condition, {.file = file, .line = line});
  }
  return condition;
}

/// @brief The block's dynamic shared memory, Config::shared_bytes long, as elements of T.
template <typename T>
inline T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory());
}

}  // namespace ultra::simt
