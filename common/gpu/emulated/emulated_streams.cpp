#include "common/gpu/emulated/emulated_streams.hpp"

#include <cstring>
#include <utility>

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

double seconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

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

simt::Queue EmulatedStreams::queue(StreamRole) { return {}; }

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

}  // namespace ultra::gpu
