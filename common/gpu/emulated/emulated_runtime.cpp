#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/gpu/order_checker.hpp"
#include "common/gpu/runtime.hpp"
#include "common/gpu/streams.hpp"
#include "kernels/table/table.hpp"

namespace ultra::gpu {
namespace {

/// What the checker knew of the stream when the event was recorded.
struct EmulatedEvent : EventState {
  explicit EmulatedEvent(VectorClock recorded) : moment(std::move(recorded)) {}
  VectorClock moment;
};

const VectorClock* moment_of(const Event& event) {
  if (event.state() == nullptr) return nullptr;
  return &static_cast<const EmulatedEvent*>(event.state())->moment;
}

/// The compute capability that the device plays: 9 takes the kernels for Hopper, none those for any GPU.
int capability() {
  const char* const asked = std::getenv("ULTRA_EMULATED_CAPABILITY");
  if (asked == nullptr || std::string_view(asked).empty()) return 0;
  if (std::string_view(asked) == "9") return 9;
  throw ConfigError(fmt::format(
      "ULTRA_EMULATED_CAPABILITY is '{}', expected 9, for an H100's instructions, or nothing",
      asked));
}

double seconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// @brief See Streams; an event is reached as soon as it is recorded.
class EmulatedStreams : public Streams {
 public:
  /// @brief Streams of `rank` that `checker`, which outlives them, watches.
  EmulatedStreams(OrderChecker& checker, int rank);
  ~EmulatedStreams() override;

  Event record(StreamRole role) override;
  void wait(StreamRole role, const Event& event) override;
  bool reached(const Event& event) override;
  bool has_passed(const Event& event) override;
  void synchronize(const Event& event) override;
  std::uint64_t synchronizations() const override;
  simt::Queue queue(StreamRole role) override;
  void copy(StreamRole role, void* to, const void* from, std::size_t bytes, CopyKind kind) override;
  void upload(StreamRole role, void* to, const void* from, std::size_t bytes) override;
  void clear(StreamRole role, void* to, std::size_t bytes) override;
  void uses(StreamRole role, std::string_view operation, std::span<const Region> reads,
            std::span<const Region> writes) override;
  void done(StreamRole role) override;
  void host_uses(std::string_view operation, std::span<const Region> reads,
                 std::span<const Region> writes) override;
  void mark_phase(std::string_view phase) override;
  void set_listener(std::function<void(const StreamSlice&)> listener) override;
  void report_slices() override;

 private:
  struct Running {
    std::string operation;
    std::chrono::steady_clock::time_point begin;
  };

  [[nodiscard]] OrderChecker::StreamId id_of(StreamRole role) const {
    return ids_[static_cast<std::size_t>(role)];
  }

  OrderChecker& checker_;
  std::array<OrderChecker::StreamId, kNumStreamRoles> ids_{};
  std::atomic<std::uint64_t> synchronizations_ = 0;
  std::atomic<bool> listens_ = false;
  std::mutex mutex_;  // guards what follows
  std::function<void(const StreamSlice&)> listener_;
  std::array<Running, kNumStreamRoles> running_;
};

EmulatedStreams::EmulatedStreams(OrderChecker& checker, int rank) : checker_(checker) {
  for (const StreamRole role : kStreamRoles) {
    ids_[static_cast<std::size_t>(role)] = checker_.add_stream(rank, role);
  }
}

EmulatedStreams::~EmulatedStreams() {
  for (const OrderChecker::StreamId id : ids_) checker_.remove_stream(id);
}

Event EmulatedStreams::record(StreamRole role) {
  return Event(std::make_shared<EmulatedEvent>(checker_.record(id_of(role))));
}

void EmulatedStreams::wait(StreamRole role, const Event& event) {
  if (const VectorClock* moment = moment_of(event)) checker_.wait(id_of(role), *moment);
}

bool EmulatedStreams::reached(const Event& event) {
  if (const VectorClock* moment = moment_of(event)) checker_.seen_by_host(*moment);
  return true;
}

bool EmulatedStreams::has_passed(const Event&) { return true; }

void EmulatedStreams::synchronize(const Event& event) {
  ++synchronizations_;
  static_cast<void>(reached(event));
}

std::uint64_t EmulatedStreams::synchronizations() const { return synchronizations_; }

simt::Queue EmulatedStreams::queue(StreamRole) {
  return {.spare_multiprocessors = left_multiprocessors()};
}

void EmulatedStreams::copy(StreamRole, void* to, const void* from, std::size_t bytes, CopyKind) {
  if (bytes != 0) std::memmove(to, from, bytes);
}

void EmulatedStreams::upload(StreamRole role, void* to, const void* from, std::size_t bytes) {
  const Launch launch(*this, role, "upload", {}, {Region{to, bytes}});
  copy(role, to, from, bytes, CopyKind::kHostToDevice);
}

void EmulatedStreams::clear(StreamRole, void* to, std::size_t bytes) {
  if (bytes != 0) std::memset(to, 0, bytes);
}

void EmulatedStreams::uses(StreamRole role, std::string_view operation,
                           std::span<const Region> reads, std::span<const Region> writes) {
  checker_.use(id_of(role), operation, reads, writes);
  if (!listens_) return;
  const std::lock_guard lock(mutex_);
  running_[static_cast<std::size_t>(role)] = {std::string(operation),
                                              std::chrono::steady_clock::now()};
}

void EmulatedStreams::done(StreamRole role) {
  if (!listens_) return;
  const std::lock_guard lock(mutex_);
  Running& running = running_[static_cast<std::size_t>(role)];
  if (!listener_ || running.operation.empty()) return;
  listener_(
      {role, running.operation, seconds(running.begin), seconds(std::chrono::steady_clock::now())});
  running.operation.clear();
}

void EmulatedStreams::host_uses(std::string_view operation, std::span<const Region> reads,
                                std::span<const Region> writes) {
  checker_.use_by_host(operation, reads, writes);
}

void EmulatedStreams::mark_phase(std::string_view) {}

void EmulatedStreams::set_listener(std::function<void(const StreamSlice&)> listener) {
  const std::lock_guard lock(mutex_);
  listens_ = static_cast<bool>(listener);
  listener_ = std::move(listener);
}

void EmulatedStreams::report_slices() {}

constexpr auto kDeviceAlignment = std::align_val_t{256};
constexpr auto kPinnedAlignment = std::align_val_t{64};

/// One for all ranks of the process, which work on each other's memory; never destroyed, because
/// tensors may live until the process ends.
OrderChecker& checker_of_this_process() {
  static OrderChecker& checker = *new OrderChecker;
  return checker;
}

class EmulatedRuntime : public Runtime {
 public:
  const DeviceProperties& properties() const override { return properties_; }
  const kernels::Table& kernels() const override { return kernels::table<simt::Executor::kFast>(); }

  void* allocate(std::size_t bytes) override { return ::operator new(bytes, kDeviceAlignment); }

  void release(void* block, std::size_t bytes) noexcept override {
    checker_of_this_process().forget(block, bytes);
    ::operator delete(block, kDeviceAlignment);
  }

  void* allocate_pinned(std::size_t bytes) override {
    return ::operator new(bytes, kPinnedAlignment);
  }

  void release_pinned(void* block, std::size_t) noexcept override {
    ::operator delete(block, kPinnedAlignment);
  }

  std::size_t free_bytes() const override { return 0; }
  bool host_can_read() const override { return true; }

  std::unique_ptr<Streams> make_streams(int rank) override {
    return std::make_unique<EmulatedStreams>(checker_of_this_process(), rank);
  }

 private:
  DeviceProperties properties_ = {
      .name = "emulated", .id = "emulated", .compute_capability_major = capability()};
};

}  // namespace

std::shared_ptr<Runtime> make_emulated_runtime() { return std::make_shared<EmulatedRuntime>(); }

}  // namespace ultra::gpu
