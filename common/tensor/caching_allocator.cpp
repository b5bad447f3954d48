#include "common/tensor/caching_allocator.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "common/base/numeric.hpp"
#include "common/tensor/backend/host_memory.hpp"

namespace ultra {

CachingAllocator::~CachingAllocator() { trim(); }

std::size_t CachingAllocator::size_class(std::size_t bytes) {
  constexpr std::size_t kSmallest = 64;
  if (bytes <= 512) return round_up(std::max<std::size_t>(bytes, 1), kSmallest);
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return round_up(bytes, step);
}

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  std::vector<void*>& blocks = pool_[size];
  void* block = nullptr;
  if (blocks.empty()) {
    block = from_system(size);
    reserved_bytes_ += size;
    ++system_allocations_;
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  backend::mark_used(block, size);
  return block;
}

void* CachingAllocator::from_system(std::size_t size) {
  try {
    return backend::take_host_memory(size);
  } catch (const std::bad_alloc&) {
    trim();
    return backend::take_host_memory(size);
  }
}

void CachingAllocator::release(void* block, std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  backend::mark_free(block, size);
  pool_[size].push_back(block);
}

void CachingAllocator::trim() {
  for (auto& [size, blocks] : pool_) {
    for (void* block : blocks) backend::give_back_host_memory(block, size);
    reserved_bytes_ -= size * blocks.size();
    blocks.clear();
  }
}

}  // namespace ultra
