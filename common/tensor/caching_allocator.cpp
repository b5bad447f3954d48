#include "common/tensor/caching_allocator.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "common/base/numeric.hpp"
#include "common/tensor/backend/host_memory.hpp"

namespace ultra {

MemorySource host_memory() {
  return {.take = backend::take_host_memory, .give_back = backend::give_back_host_memory};
}

CachingAllocator::CachingAllocator(MemorySource source) : source_(std::move(source)) {}

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
  if (source_.host_can_touch) backend::mark_used(block, size);
  return block;
}

void* CachingAllocator::from_system(std::size_t size) {
  try {
    return source_.take(size);
  } catch (const std::bad_alloc&) {
    trim();
    return source_.take(size);
  }
}

void CachingAllocator::release(void* block, std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  if (source_.host_can_touch) backend::mark_free(block, size);
  pool_[size].push_back(block);
}

void CachingAllocator::trim() {
  for (auto& [size, blocks] : pool_) {
    for (void* block : blocks) {
      if (source_.host_can_touch) backend::mark_given_back(block, size);
      source_.give_back(block, size);
    }
    reserved_bytes_ -= size * blocks.size();
    blocks.clear();
  }
}

}  // namespace ultra
