// Shared memory: one arena for the dynamic part, and the thread-local variables as they are touched.

#include "kernels/simt/emulator/memory/shared_memory.hpp"

#include <cstring>
#include <memory>

#include "kernels/simt/config.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr int kPoison = 0xff;
constexpr std::size_t kAlignment = 1024;  // what TMA asks for, the strictest
constexpr std::size_t kGap = 4096;        // so that an index just outside meets nothing

}  // namespace

void SharedMemory::start_launch(std::size_t dynamic_bytes, std::uintptr_t kernel) {
  if (storage_ == nullptr) {
    storage_ = std::make_unique<std::byte[]>(kMostSharedBytes + kAlignment + 2 * kGap);
    void* first = storage_.get() + kGap;
    std::size_t space = kMostSharedBytes + kAlignment;
    dynamic_ = static_cast<std::byte*>(std::align(kAlignment, kMostSharedBytes, first, space));
  }
  // Variables of earlier launches are poisoned once more, then known anew when they are touched.
  start_block();
  arrays_.clear();
  recent_ = nullptr;
  kernel_ = kernel;
  arrays_.push_back({.name = "dynamic shared memory",
                     .begin = reinterpret_cast<std::uintptr_t>(dynamic_),
                     .bytes = dynamic_bytes,
                     .shadow = Shadow(dynamic_bytes)});
}

void SharedMemory::start_block() {
  for (const SharedArray& array : arrays_) {
    std::memset(reinterpret_cast<void*>(array.begin), kPoison, array.bytes);
  }
}

SharedArray* SharedMemory::find(std::uintptr_t address) {
  if (recent_ != nullptr && recent_->contains(address)) {
    return recent_;
  }
  for (SharedArray& array : arrays_) {
    if (array.contains(address)) {
      return recent_ = &array;
    }
  }
  const StaticVariable* const variable = variables_.find(address, kernel_);
  if (variable == nullptr) {
    return nullptr;
  }
  arrays_.push_back({.name = variable->name,
                     .begin = variable->begin,
                     .bytes = variable->bytes,
                     .shadow = Shadow(variable->bytes)});
  return recent_ = &arrays_.back();
}

const SharedArray* SharedMemory::last_before(std::uintptr_t address) const {
  const SharedArray* last = nullptr;
  for (const SharedArray& array : arrays_) {
    if (array.begin <= address && (last == nullptr || array.begin > last->begin)) {
      last = &array;
    }
  }
  return last;
}

}  // namespace ultra::simt::emulator
