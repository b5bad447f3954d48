// Allocations of each executor. The checked emulator's have a gap before and behind them, so that an
// index just outside a buffer is not inside another one.

#include "kernels/simt/memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/simt/emulator/memory/registry.hpp"
#include "kernels/simt/gpu/device_memory.hpp"

namespace ultra::simt {
namespace {

constexpr std::size_t kGap = 4096;
constexpr auto kAlignment = std::align_val_t{kBufferAlignment};
constexpr int kPoison = 0xff;

std::size_t gap_of(Executor executor) { return executor == Executor::kChecked ? kGap : 0; }

void* allocate(Executor executor, std::size_t bytes) {
  if (executor == Executor::kGpu) {
    return gpu::allocate(bytes);
  }
  const std::size_t gap = gap_of(executor);
  auto* first = static_cast<std::byte*>(::operator new(bytes + 2 * gap, kAlignment));
  std::memset(first + gap, kPoison, bytes);
  return first + gap;
}

void release(Executor executor, void* address) {
  if (executor == Executor::kGpu) {
    gpu::release(address);
  } else if (address != nullptr) {
    ::operator delete(static_cast<std::byte*>(address) - gap_of(executor), kAlignment);
  }
}

}  // namespace

Memory::Memory(Executor executor, std::string name, std::size_t bytes, std::size_t element_size)
    : executor_(executor), bytes_(bytes), address_(allocate(executor, bytes)) {
  if (executor == Executor::kChecked) {
    record_ =
        std::make_shared<emulator::BufferRecord>(std::move(name), address_, bytes, element_size);
    emulator::add_buffer(record_);
  }
}

Memory::~Memory() {
  if (record_) {
    emulator::remove_buffer(*record_);
  }
  release(executor_, address_);
}

Memory::Memory(Memory&& other) noexcept
    : executor_(other.executor_),
      bytes_(std::exchange(other.bytes_, 0)),
      address_(std::exchange(other.address_, nullptr)),
      record_(std::move(other.record_)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(executor_, other.executor_);
  std::swap(bytes_, other.bytes_);
  std::swap(address_, other.address_);
  std::swap(record_, other.record_);
  return *this;
}

void Memory::write(const void* source) {
  if (bytes_ == 0) {
    return;
  }
  if (executor_ == Executor::kGpu) {
    gpu::copy_to_device(address_, source, bytes_);
    return;
  }
  std::memcpy(address_, source, bytes_);
  if (record_) {
    std::fill(record_->written.begin(), record_->written.end(), std::uint8_t{1});
  }
}

void Memory::read(void* destination) const {
  if (bytes_ == 0) {
    return;
  }
  if (executor_ == Executor::kGpu) {
    gpu::copy_to_host(destination, address_, bytes_);
  } else {
    std::memcpy(destination, address_, bytes_);
  }
}

}  // namespace ultra::simt
