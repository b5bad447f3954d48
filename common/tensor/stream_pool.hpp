#pragma once
/// @file
/// StreamPool: the memory of a device with streams, handed out in stream order.

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/gpu/runtime.hpp"
#include "common/tensor/caching_allocator.hpp"

namespace ultra {

/// @brief A pool for each stream of a device.
///
/// The host releases a block while its stream may still have work with it. So a block goes back to
/// the pool of the stream it was allocated for, whose later work comes after; and when other streams
/// used it, only after an event of theirs. Not thread safe: its owner, the Device, serialises the
/// calls.
/// Source: as PyTorch's CUDA caching allocator, with its record_stream().
class StreamPool {
 public:
  /// @brief Pools of a device; both outlive this.
  StreamPool(gpu::Runtime& runtime, gpu::Streams& streams);
  /// @brief Gives all memory back; what streams were given may still use it, so the device waits.
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  /// @brief A block for what `role`'s stream is given from now on.
  /// @throws std::bad_alloc when the device has no more, though the pools were given back.
  [[nodiscard]] void* allocate(std::size_t bytes, gpu::StreamRole role);

  /// @brief Puts a block back; `bytes` is the size that was asked for.
  void release(void* block, std::size_t bytes);

  /// @brief Another stream uses the block too.
  void used_on(void* block, gpu::StreamRole role);

  /// @brief Bytes taken from the device and not given back.
  [[nodiscard]] std::size_t reserved_bytes() const;

  /// @brief How often the device was asked for memory.
  [[nodiscard]] std::size_t system_allocations() const;

 private:
  struct Block {
    gpu::StreamRole home;
    std::uint8_t others = 0;  // bit: a role that used it
  };
  struct Waiting {
    void* block;
    std::size_t bytes;
    gpu::StreamRole home;
    std::vector<gpu::Event> uses;
  };

  [[nodiscard]] CachingAllocator& pool_of(gpu::StreamRole role) {
    return pools_[static_cast<std::size_t>(role)];
  }
  void take_back_what_has_passed();
  void take_back(const Waiting& waiting);
  void give_everything_back();

  gpu::Streams& streams_;
  std::array<CachingAllocator, gpu::kNumStreamRoles> pools_;
  std::unordered_map<void*, Block> blocks_;  // those in use
  std::vector<Waiting> waiting_;             // released, for events of other streams
};

}  // namespace ultra
