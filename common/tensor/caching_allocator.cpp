#include "common/tensor/caching_allocator.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/numeric.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ultra {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= kHugePage ? kHugePage : std::size_t{64}};
}

/// Takes `bytes` from the system, aligned to 64 bytes (2 MiB pages for large blocks).
/// @throws std::bad_alloc when the system has no more.
void* take_host_memory(std::size_t bytes) {
  void* block = ::operator new(bytes, alignment_of(bytes));
#if defined(__linux__)
  // A large matrix touches thousands of 4 KiB pages; huge ones save most of the TLB misses.
  if (bytes >= kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
#endif
  return block;
}

void give_back_host_memory(void* block, std::size_t bytes) {
  ::operator delete(block, alignment_of(bytes));
}

/// Marks a cached block as unusable: under AddressSanitizer any access is reported.
void mark_free([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(block, bytes);
#endif
}

/// The system gets a cached block back, which it may use.
void mark_given_back([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
#endif
}

/// Marks a block as usable; under AddressSanitizer it is filled with NaN, so that reading
/// memory that nobody has written shows.
void mark_used([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  std::memset(block, 0xFF, bytes);
#endif
}

}  // namespace

MemorySource host_memory() {
  return {.take = take_host_memory, .give_back = give_back_host_memory};
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
  if (source_.host_can_touch) mark_used(block, size);
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
  if (source_.host_can_touch) mark_free(block, size);
  pool_[size].push_back(block);
}

void CachingAllocator::trim() {
  for (auto& [size, blocks] : pool_) {
    for (void* block : blocks) {
      if (source_.host_can_touch) mark_given_back(block, size);
      source_.give_back(block, size);
    }
    reserved_bytes_ -= size * blocks.size();
    blocks.clear();
  }
}

}  // namespace ultra
