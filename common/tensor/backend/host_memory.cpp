#include "common/tensor/backend/host_memory.hpp"

#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ultra::backend {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= kHugePage ? kHugePage : std::size_t{64}};
}

}  // namespace

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

void mark_free([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(block, bytes);
#endif
}

void mark_given_back([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
#endif
}

void mark_used([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  std::memset(block, 0xFF, bytes);
#endif
}

}  // namespace ultra::backend
