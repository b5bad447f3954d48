// Stacks are mapped, not allocated: their guard needs pages of its own.

#include "kernels/simt/emulator/stack.hpp"

#include <sys/mman.h>

#include <new>

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kColours = 61;
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kMappedBytes = kGuardBytes + kStackBytes;

}  // namespace

bool Stack::guard_contains(std::uintptr_t address) const {
  const auto first = reinterpret_cast<std::uintptr_t>(bottom);
  return address < first && address >= first - kGuardBytes;
}

Stack map_stack(std::size_t number) {
  void* const mapped = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw std::bad_alloc();
  }
  if (mprotect(mapped, kGuardBytes, PROT_NONE) != 0) {
    munmap(mapped, kMappedBytes);
    throw std::bad_alloc();
  }
  auto* const first = static_cast<std::byte*>(mapped);
  return {.bottom = first + kGuardBytes,
          .top = first + kMappedBytes - number % kColours * kCacheLine};
}

void unmap_stack(const Stack& stack) noexcept { munmap(stack.bottom - kGuardBytes, kMappedBytes); }

}  // namespace ultra::simt::emulator
