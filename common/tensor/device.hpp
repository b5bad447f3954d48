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

namespace ultra::gpu {
enum class StreamRole;
class Streams;
class Runtime;
class Tape;
}  // namespace ultra::gpu

namespace ultra {

/// @brief Kind of memory and of the code that works on it: kEmulated is kCuda's code with kernels,
/// memory and streams that the host emulates. kMeta is that code, too, with memory that does not
/// exist and streams that only write down what they are given: no flag names it.
enum class DeviceKind { kCpu, kCuda, kEmulated, kMeta };

/// @brief Whose matrix products a device computes. The emulated device has ours alone.
enum class MatmulLibrary {
  kAny,     ///< the vendor's where it is there, else ours; the CPU's BLAS
  kVendor,  ///< cuBLASLt
  kOurs,    ///< the ladders of kernels/
  kTrees    ///< none: products, and all other sums, are by ops::SumTree
};

/// @brief "cpu", "cuda", "emulated" or "meta".
[[nodiscard]] std::string_view to_string(DeviceKind kind);

/// @brief True for a device whose work the host puts into streams and whose memory it cannot read.
[[nodiscard]] constexpr bool has_streams(DeviceKind kind) { return kind != DeviceKind::kCpu; }

/// @brief False for a device that computes nothing: what only fills tensors with numbers may be left
/// out there.
[[nodiscard]] constexpr bool has_numbers(DeviceKind kind) { return kind != DeviceKind::kMeta; }

/// @brief Parses "cpu", "cuda" or "emulated".
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
  /// @param rank  whose device it is: the GPUs of a machine are dealt out in turn, and messages name
  ///              the rank.
  /// @param library  its products are computed by. The first one throws ConfigError where the
  ///              vendor's is asked for and missing.
  /// @throws ConfigError when this build or this machine has no such device, or one too old; the
  /// message says what is missing.
  [[nodiscard]] static Device create(DeviceKind kind, int rank = 0,
                                     MatmulLibrary library = MatmulLibrary::kAny);

  /// @brief A device that computes nothing and writes down what it is given: what it is told to do, and
  /// each change of the memory in use, while the tape runs.
  /// @param tape  outlives the device and all of its tensors.
  /// @param rank  whose device it is, for messages.
  /// @param checks_order  whether accesses without an order throw gpu::OrderError, as they do on the
  ///                      emulated device.
  [[nodiscard]] static Device meta(gpu::Tape& tape, int rank = 0, bool checks_order = false);

  /// @brief CPU, CUDA, emulated or meta.
  [[nodiscard]] DeviceKind kind() const;

  /// @brief Whose matrix products it was made for.
  [[nodiscard]] MatmulLibrary matmul_library() const;

  /// @brief "cpu", "emulated", "meta", or the GPU's name.
  [[nodiscard]] const std::string& name() const;

  /// @brief Its streams.
  /// @throws InternalError for a device without: see has_streams.
  [[nodiscard]] gpu::Streams& streams() const;

  /// @brief Its memory and streams as the system gives them.
  /// @throws InternalError for a device without streams.
  [[nodiscard]] gpu::Runtime& runtime() const;

  /// @brief A CPU device for what travels between the host and this device: its pool is of pinned
  /// memory and its bytes are not counted here. The CPU device's is itself.
  [[nodiscard]] const Device& host() const;

  /// @brief Takes a block from the pool and counts it. On a device with streams it belongs to the
  /// calling thread's stream (gpu::current_role): what is launched there from now on may use it.
  /// @throws OutOfMemory when the limit or the system does not allow it, with what is in use.
  [[nodiscard]] void* allocate(std::size_t bytes, MemoryCategory category) const;

  /// @brief Gives a block back to the pool and stops counting it. What its stream has been given may
  /// still use it.
  void release(void* block, std::size_t bytes, MemoryCategory category) const noexcept;

  /// @brief Another stream than the block's own uses it too: when it is released, it is used again
  /// only after what that stream will have been given by then. Nothing on a device without streams.
  void used_on(void* block, gpu::StreamRole role) const;

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
  [[nodiscard]] static Device on_runtime(DeviceKind kind, std::shared_ptr<gpu::Runtime> runtime,
                                         int rank);
  std::shared_ptr<State> state_;
};

}  // namespace ultra
