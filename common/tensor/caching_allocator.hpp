#pragma once
/// @file
/// CachingAllocator: serves tensors from a pool, so that a steady training step never asks the
/// system for memory.

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace ultra {

/// @brief Where a pool takes its blocks from.
struct MemorySource {
  /// Takes bytes, aligned to 64; throws std::bad_alloc when there are no more.
  std::function<void*(std::size_t)> take;
  /// Gives back a block of this many bytes.
  std::function<void(void*, std::size_t)> give_back;
  /// Whether the host reads and writes it: the address sanitizer then watches its blocks.
  bool host_can_touch = true;
};

/// @brief The host's ordinary memory.
[[nodiscard]] MemorySource host_memory();

/// @brief A pool of blocks sorted by size class; a freed block waits there for the next request.
///
/// Sizes are rounded up to one of eight classes per power of two, so at most 12.5% of a block above
/// 512 bytes is unused. Not thread safe: its owner, the Device, serialises the calls.
/// Source: the idea is that of PyTorch's CUDA caching allocator, without its block splitting.
class CachingAllocator {
 public:
  /// @brief An allocator with an empty pool.
  explicit CachingAllocator(MemorySource source = host_memory());
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  /// @brief The size that a request for `bytes` is rounded up to.
  [[nodiscard]] static std::size_t size_class(std::size_t bytes);

  /// @brief A block of at least `bytes` bytes, aligned to 64; from the pool when one fits.
  ///
  /// When the system has no more memory, the pool is given back, and the system asked once more.
  /// @throws std::bad_alloc when that was not enough.
  [[nodiscard]] void* allocate(std::size_t bytes);

  /// @brief Puts a block back into the pool; `bytes` is the size that was asked for.
  void release(void* block, std::size_t bytes);

  /// @brief Gives every block in the pool back to the system.
  void trim();

  /// @brief Bytes taken from the system and not given back: in use plus waiting in the pool.
  [[nodiscard]] std::size_t reserved_bytes() const { return reserved_bytes_; }

  /// @brief How often the system was asked for memory.
  [[nodiscard]] std::size_t system_allocations() const { return system_allocations_; }

 private:
  [[nodiscard]] void* from_system(std::size_t size);

  MemorySource source_;
  std::map<std::size_t, std::vector<void*>> pool_;
  std::size_t reserved_bytes_ = 0;
  std::size_t system_allocations_ = 0;
};

}  // namespace ultra
