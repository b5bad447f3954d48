#include "common/tensor/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/gpu/meta/meta_streams.hpp"
#include "common/gpu/meta/tape.hpp"
#include "common/gpu/runtime.hpp"
#include "common/tensor/caching_allocator.hpp"
#include "common/tensor/stream_pool.hpp"

namespace ultra {

std::string_view to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kMeta:
      return "meta";
    case DeviceKind::kEmulated:
      break;
  }
  return "emulated";
}

DeviceKind parse_device_kind(const std::string& text) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kEmulated}) {
    if (text == to_string(kind)) return kind;
  }
  throw ConfigError(
      fmt::format("device {} is unknown. Use cpu, cuda or emulated.", in_quotes(text)));
}

/// What a device with streams has beyond the counters.
struct StreamDevice {
  StreamDevice(std::shared_ptr<gpu::Runtime> of, int rank)
      : runtime(std::move(of)), streams(runtime->make_streams(rank)), pool(*runtime, *streams) {}

  std::shared_ptr<gpu::Runtime> runtime;
  std::unique_ptr<gpu::Streams> streams;
  StreamPool pool;
};

struct Device::State {
  DeviceKind kind = DeviceKind::kCpu;
  MatmulLibrary library = MatmulLibrary::kAny;
  std::string name = "cpu";
  std::mutex mutex;
  CachingAllocator allocator;  // of a device without streams
  MemoryTracker tracker;
  std::optional<std::size_t> limit;
  std::unique_ptr<StreamDevice> on_streams;
  std::optional<Device> host;
  gpu::Tape* tape = nullptr;  // of a device that writes down what it is given

  State() = default;
  explicit State(MemorySource source) : allocator(std::move(source)) {}

  void* take(std::size_t bytes) {
    return on_streams ? on_streams->pool.allocate(bytes, gpu::current_role())
                      : allocator.allocate(bytes);
  }
  void give_back(void* block, std::size_t bytes) {
    if (on_streams) {
      on_streams->pool.release(block, bytes);
    } else {
      allocator.release(block, bytes);
    }
  }
  void tape_memory() {
    if (tape != nullptr) tape->add(tracker.current().bytes);
  }
  [[nodiscard]] std::string memory_of_the_system() const;
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
OutOfMemory no_more_in_the_system(const std::string& whose, std::size_t bytes,
                                  MemoryCategory category, std::optional<std::size_t> limit,
                                  const MemoryUsage& usage) {
  const std::string allowed =
      limit ? fmt::format(" --device-memory would allow {}.", format_bytes(*limit)) : "";
  return OutOfMemory(fmt::format(
      "out of memory: {} refuses {} more for {}, with {} in use ({}) and nothing cached."
      "{} Split the model over more ranks, keep fewer activations, or use a smaller "
      "--micro-batch, --seq or model.",
      whose, format_bytes(bytes), to_string(category), format_bytes(usage.total()),
      breakdown(usage), allowed));
}

}  // namespace

/// Who refuses memory, and for a GPU how much of it others hold.
std::string Device::State::memory_of_the_system() const {
  if (kind != DeviceKind::kCuda) return "the system";
  const gpu::DeviceProperties& gpu = on_streams->runtime->properties();
  const std::size_t free = on_streams->runtime->free_bytes();
  const std::size_t held = on_streams->pool.reserved_bytes();
  const std::size_t others = gpu.total_bytes - std::min(gpu.total_bytes, free + held);
  return fmt::format(
      "GPU {} ({}, {}, of which this rank holds {}, other ranks, processes and CUDA "
      "itself {}, and {} are free)",
      gpu.ordinal, gpu.name, format_bytes(gpu.total_bytes), format_bytes(held),
      format_bytes(others), format_bytes(free));
}

Device::Device(std::shared_ptr<State> state) : state_(std::move(state)) {}

Device Device::cpu() { return Device(std::make_shared<State>()); }

Device Device::create(DeviceKind kind, int rank, MatmulLibrary library) {
  const auto make = [&] {
    switch (kind) {
      case DeviceKind::kCpu:
        return cpu();
      case DeviceKind::kCuda:
        return on_runtime(kind, gpu::make_cuda_runtime(rank), rank);
      case DeviceKind::kMeta:
        throw InternalError("a meta device is made with its tape: Device::meta");
      case DeviceKind::kEmulated:
        break;
    }
    return on_runtime(DeviceKind::kEmulated, gpu::make_emulated_runtime(), rank);
  };
  const Device device = make();
  device.state_->library = library;
  return device;
}

Device Device::meta(gpu::Tape& tape, int rank, bool checks_order) {
  const Device device =
      on_runtime(DeviceKind::kMeta, gpu::make_meta_runtime(tape, checks_order), rank);
  device.state_->tape = &tape;
  return device;
}

Device Device::on_runtime(DeviceKind kind, std::shared_ptr<gpu::Runtime> runtime, int rank) {
  auto pinned = std::make_shared<State>(MemorySource{
      .take = [runtime](std::size_t bytes) { return runtime->allocate_pinned(bytes); },
      .give_back = [runtime](void* block,
                             std::size_t bytes) { runtime->release_pinned(block, bytes); }});
  auto state = std::make_shared<State>();
  state->kind = kind;
  state->name = runtime->properties().name;
  state->host = Device(std::move(pinned));
  state->on_streams = std::make_unique<StreamDevice>(std::move(runtime), rank);
  return Device(std::move(state));
}

const std::string& Device::name() const { return state_->name; }

gpu::Streams& Device::streams() const {
  ensure(state_->on_streams != nullptr, "only a device with streams has streams");
  return *state_->on_streams->streams;
}

gpu::Runtime& Device::runtime() const {
  ensure(state_->on_streams != nullptr, "only a device with streams has a runtime");
  return *state_->on_streams->runtime;
}

const Device& Device::host() const { return state_->host ? *state_->host : *this; }

DeviceKind Device::kind() const { return state_->kind; }

MatmulLibrary Device::matmul_library() const { return state_->library; }

void* Device::allocate(std::size_t bytes, MemoryCategory category) const {
  const std::lock_guard lock(state_->mutex);
  const MemoryUsage& usage = state_->tracker.current();
  if (state_->limit && bytes > *state_->limit - std::min(usage.total(), *state_->limit)) {
    throw above_limit(bytes, category, *state_->limit, usage);
  }
  void* block = nullptr;
  try {
    block = state_->take(bytes);
  } catch (const std::bad_alloc&) {
    throw no_more_in_the_system(state_->memory_of_the_system(), bytes, category, state_->limit,
                                usage);
  }
  state_->tracker.add(category, bytes);
  state_->tape_memory();
  return block;
}

void Device::release(void* block, std::size_t bytes, MemoryCategory category) const noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->give_back(block, bytes);
  state_->tracker.remove(category, bytes);
  state_->tape_memory();
}

void Device::used_on(void* block, gpu::StreamRole role) const {
  if (!state_->on_streams) return;
  const std::lock_guard lock(state_->mutex);
  state_->on_streams->pool.used_on(block, role);
}

void Device::recategorize(std::size_t bytes, MemoryCategory from, MemoryCategory to) const {
  const std::lock_guard lock(state_->mutex);
  state_->tracker.move(from, to, bytes);
  state_->tape_memory();
}

void Device::set_memory_limit(std::optional<std::size_t> bytes) const {
  const std::lock_guard lock(state_->mutex);
  state_->limit = bytes;
}

void Device::set_phase(std::string_view phase) const {
  if (state_->on_streams) state_->on_streams->streams->mark_phase(phase);
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
  return state_->on_streams ? state_->on_streams->pool.reserved_bytes()
                            : state_->allocator.reserved_bytes();
}

std::size_t Device::system_allocations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->on_streams ? state_->on_streams->pool.system_allocations()
                            : state_->allocator.system_allocations();
}

}  // namespace ultra
