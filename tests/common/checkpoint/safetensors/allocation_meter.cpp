#include "tests/common/checkpoint/safetensors/allocation_meter.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t allocated_bytes = 0;

void* counted(std::size_t bytes) noexcept {
  allocated_bytes += bytes;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// These take the place of the library's. Those for arrays and for aligned memory stay.
void* operator new(std::size_t bytes) {
  if (void* block = counted(bytes)) return block;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }

namespace ultra::checkpoint {

AllocationMeter::AllocationMeter() : before_(allocated_bytes) {}

std::size_t AllocationMeter::bytes() const { return allocated_bytes - before_; }

}  // namespace ultra::checkpoint
