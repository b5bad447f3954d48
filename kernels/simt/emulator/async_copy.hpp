#pragma once
/// @file
/// cp.async for the emulator. A copy takes its values when it is issued, and they land when its thread
/// waits for it, no earlier: until then the bytes count as unwritten, so a read that does not wait is
/// reported. On the bare side a copy lands at once.

#include <cstddef>
#include <cstring>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/side.hpp"

namespace ultra::simt {

/// @brief Begins to copy 4, 8 or 16 bytes from global to shared memory; both addresses are multiples of
/// `bytes`. Copies the first `source_bytes` (0 to `bytes`), and fills the rest with zeros. With 0,
/// nothing is read and `global` may be any aligned address. Counts as a load and a store of its line.
template <int bytes, Side side = kSide>
void copy_async(void* shared, const void* global, int source_bytes = bytes,
                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  const auto source_size = static_cast<std::size_t>(source_bytes);
  if constexpr (side == Side::kInstrumented) {
    emulator::begin_copy({.shared = shared,
                          .global = global,
                          .size = bytes,
                          .source_size = source_size,
                          .place = {.file = file, .line = line}});
  } else {
    std::memset(shared, 0, bytes);
    std::memcpy(shared, global, source_size);
  }
}

/// @brief Makes a group, maybe an empty one, of this thread's copies since the last group.
template <Side side = kSide>
void commit_copies() {
  if constexpr (side == Side::kInstrumented) {
    emulator::commit_copies();
  }
}

/// @brief Waits for all groups of this thread but the `pending` latest.
template <int pending, Side side = kSide>
void wait_copies() {
  if constexpr (side == Side::kInstrumented) {
    emulator::land_copies(pending);
  }
}

}  // namespace ultra::simt
