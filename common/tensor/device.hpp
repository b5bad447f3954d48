#pragma once
/// @file
/// Device: where a rank's tensors live, with that rank's memory pool and memory tracker.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/tensor/memory_tracker.hpp"

namespace ultra {

/// @brief Kind of memory and of the code that works on it.
enum class DeviceKind { kCpu, kCuda };

/// @brief "cpu" or "cuda".
[[nodiscard]] std::string_view to_string(DeviceKind kind);

/// @brief Parses "cpu" or "cuda".
/// @throws ConfigError for any other text.
[[nodiscard]] DeviceKind parse_device_kind(const std::string& text);

/// @brief A handle on one rank's device; copies refer to the same pool and tracker.
///
/// Each rank makes its own: two ranks in one process share no memory statistics and no pool.
/// All members may be called from several threads.
class Device {
 public:
  /// @brief A new CPU device with an empty pool.
  [[nodiscard]] static Device cpu();

  /// @brief A new device of the given kind.
  /// @throws ConfigError when this build has no code for that kind.
  [[nodiscard]] static Device create(DeviceKind kind);

  /// @brief CPU or CUDA.
  [[nodiscard]] DeviceKind kind() const;

  /// @brief Takes a block from the pool and counts it.
  /// @throws OutOfMemory when the limit or the system does not allow it, with what is in use.
  [[nodiscard]] void* allocate(std::size_t bytes, MemoryCategory category) const;

  /// @brief Gives a block back to the pool and stops counting it.
  void release(void* block, std::size_t bytes, MemoryCategory category) const noexcept;

  /// @brief Counts `bytes` under another category from now on.
  void recategorize(std::size_t bytes, MemoryCategory from, MemoryCategory to) const;

  /// @brief Refuses what would bring the bytes in use above `bytes` from now on; nullopt ends that.
  void set_memory_limit(std::optional<std::size_t> bytes) const;

  /// @brief Names the phase of the step that the rank is in; memory peaks carry that name.
  void set_phase(std::string_view phase) const;

  /// @brief A copy of the tracker: current usage, peaks and their phases.
  [[nodiscard]] MemoryTracker memory() const;

  /// @brief Starts the memory peaks again from the current usage.
  void reset_memory_peaks() const;

  /// @brief Calls `listener` after every change of the memory in use; an empty function stops that.
  void set_memory_listener(MemoryTracker::Listener listener) const;

  /// @brief Bytes that the pool holds from the system, in use or waiting.
  [[nodiscard]] std::size_t reserved_bytes() const;

  /// @brief How often the pool asked the system for memory.
  [[nodiscard]] std::size_t system_allocations() const;

  /// @brief Two handles are equal when they refer to the same pool.
  bool operator==(const Device&) const = default;

 private:
  struct State;
  explicit Device(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace ultra
