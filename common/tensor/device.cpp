#include "common/tensor/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/tensor/caching_allocator.hpp"

namespace ultra {

std::string_view to_string(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

DeviceKind parse_device_kind(const std::string& text) {
  if (text == "cpu") return DeviceKind::kCpu;
  if (text == "cuda") return DeviceKind::kCuda;
  throw ConfigError(fmt::format("device {} is unknown. Use cpu or cuda.", in_quotes(text)));
}

struct Device::State {
  DeviceKind kind = DeviceKind::kCpu;
  std::mutex mutex;
  CachingAllocator allocator;
  MemoryTracker tracker;
  std::optional<std::size_t> limit;
};

namespace {

/// "parameters 1.2 MB, gradients 400 kB".
std::string breakdown(const MemoryUsage& usage) {
  std::string text;
  for (const MemoryCategory category : kMemoryCategories) {
    if (usage[category] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(category),
                        format_bytes(usage[category]));
  }
  return text.empty() ? "nothing" : text;
}

OutOfMemory above_limit(std::size_t bytes, MemoryCategory category, std::size_t limit,
                        const MemoryUsage& usage) {
  return OutOfMemory(fmt::format(
      "out of device memory: {} more for {} do not fit into {}, of which {} are in use ({}). Split "
      "the model over more ranks, keep fewer activations, use a smaller --micro-batch, --seq or "
      "model, or raise --device-memory.",
      format_bytes(bytes), to_string(category), format_bytes(limit), format_bytes(usage.total()),
      breakdown(usage)));
}

/// The pool has given back what nobody uses before this comes.
OutOfMemory no_more_in_the_system(std::size_t bytes, MemoryCategory category,
                                  std::optional<std::size_t> limit, const MemoryUsage& usage) {
  const std::string allowed =
      limit ? fmt::format(" --device-memory would allow {}.", format_bytes(*limit)) : "";
  return OutOfMemory(fmt::format(
      "out of memory: the system refuses {} more for {}, with {} in use ({}) and nothing cached."
      "{} Split the model over more ranks, keep fewer activations, or use a smaller "
      "--micro-batch, --seq or model.",
      format_bytes(bytes), to_string(category), format_bytes(usage.total()), breakdown(usage),
      allowed));
}

}  // namespace

Device::Device(std::shared_ptr<State> state) : state_(std::move(state)) {}

Device Device::cpu() { return Device(std::make_shared<State>()); }

Device Device::create(DeviceKind kind) {
  if (kind != DeviceKind::kCpu) {
    throw ConfigError(
        "device cuda: this version of the workbook trains on the CPU only. Use --device cpu.");
  }
  return cpu();
}

DeviceKind Device::kind() const { return state_->kind; }

void* Device::allocate(std::size_t bytes, MemoryCategory category) const {
  const std::lock_guard lock(state_->mutex);
  const MemoryUsage& usage = state_->tracker.current();
  if (state_->limit && bytes > *state_->limit - std::min(usage.total(), *state_->limit)) {
    throw above_limit(bytes, category, *state_->limit, usage);
  }
  void* block = nullptr;
  try {
    block = state_->allocator.allocate(bytes);
  } catch (const std::bad_alloc&) {
    throw no_more_in_the_system(bytes, category, state_->limit, usage);
  }
  state_->tracker.add(category, bytes);
  return block;
}

void Device::release(void* block, std::size_t bytes, MemoryCategory category) const noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->allocator.release(block, bytes);
  state_->tracker.remove(category, bytes);
}

void Device::recategorize(std::size_t bytes, MemoryCategory from, MemoryCategory to) const {
  const std::lock_guard lock(state_->mutex);
  state_->tracker.move(from, to, bytes);
}

void Device::set_memory_limit(std::optional<std::size_t> bytes) const {
  const std::lock_guard lock(state_->mutex);
  state_->limit = bytes;
}

void Device::set_phase(std::string_view phase) const {
  const std::lock_guard lock(state_->mutex);
  state_->tracker.set_phase(phase);
}

MemoryTracker Device::memory() const {
  const std::lock_guard lock(state_->mutex);
  MemoryTracker copy = state_->tracker;
  copy.set_listener({});
  return copy;
}

void Device::reset_memory_peaks() const {
  const std::lock_guard lock(state_->mutex);
  state_->tracker.reset_peaks();
}

void Device::set_memory_listener(MemoryTracker::Listener listener) const {
  const std::lock_guard lock(state_->mutex);
  state_->tracker.set_listener(std::move(listener));
}

std::size_t Device::reserved_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocator.reserved_bytes();
}

std::size_t Device::system_allocations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocator.system_allocations();
}

}  // namespace ultra
