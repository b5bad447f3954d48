// Allocations of each side. The emulator's have a gap before and behind them on the instrumented
// side, so that an index just outside a buffer is not inside another one.

#include "kernels/simt/memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/simt/emulator/registry.hpp"
#include "kernels/simt/gpu/device_memory.hpp"

namespace ultra::simt {
namespace {

constexpr std::size_t kGap = 4096;
constexpr auto kAlignment = std::align_val_t{kBufferAlignment};
constexpr int kPoison = 0xff;

std::size_t gap_of(Side side) { return side == Side::kInstrumented ? kGap : 0; }

void* allocate(Side side, std::size_t bytes) {
  if (side == Side::kGpu) {
    return gpu::allocate(bytes);
  }
  const std::size_t gap = gap_of(side);
  auto* first = static_cast<std::byte*>(::operator new(bytes + 2 * gap, kAlignment));
  std::memset(first + gap, kPoison, bytes);
  return first + gap;
}

void release(Side side, void* address) {
  if (side == Side::kGpu) {
    gpu::release(address);
  } else if (address != nullptr) {
    ::operator delete(static_cast<std::byte*>(address) - gap_of(side), kAlignment);
  }
}

}  // namespace

Memory::Memory(Side side, std::string name, std::size_t bytes, std::size_t element_size)
    : side_(side), bytes_(bytes), address_(allocate(side, bytes)) {
  if (side == Side::kInstrumented) {
    record_ =
        std::make_shared<emulator::BufferRecord>(std::move(name), address_, bytes, element_size);
    emulator::add_buffer(record_);
  }
}

Memory::~Memory() {
  if (record_) {
    emulator::remove_buffer(*record_);
  }
  release(side_, address_);
}

Memory::Memory(Memory&& other) noexcept
    : side_(other.side_),
      bytes_(std::exchange(other.bytes_, 0)),
      address_(std::exchange(other.address_, nullptr)),
      record_(std::move(other.record_)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(side_, other.side_);
  std::swap(bytes_, other.bytes_);
  std::swap(address_, other.address_);
  std::swap(record_, other.record_);
  return *this;
}

void Memory::write(const void* source) {
  if (bytes_ == 0) {
    return;
  }
  if (side_ == Side::kGpu) {
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
  if (side_ == Side::kGpu) {
    gpu::copy_to_host(destination, address_, bytes_);
  } else {
    std::memcpy(destination, address_, bytes_);
  }
}

}  // namespace ultra::simt
