#include "common/gpu/meta/meta_streams.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/gpu/meta/meta_event.hpp"

namespace ultra::gpu {
namespace {

/// What the checker knew when an event was recorded; null without one.
const VectorClock* recorded_moment(const Event& event) {
  const auto* known = static_cast<const MetaEvent*>(event.state());
  return known == nullptr || known->moment.empty() ? nullptr : &known->moment;
}

}  // namespace

std::size_t bytes_of(std::span<const Region> regions) {
  std::size_t bytes = 0;
  for (const Region& region : regions) bytes += region.bytes * region.runs;
  return bytes;
}

MetaStreams::MetaStreams(Tape& tape, OrderChecker* checker, int rank)
    : tape_(tape), checker_(checker) {
  if (checker_ == nullptr) return;
  for (const StreamRole role : kStreamRoles) {
    ids_[static_cast<std::size_t>(role)] = checker_->add_stream(rank, role);
  }
}

MetaStreams::~MetaStreams() {
  if (checker_ == nullptr) return;
  for (const OrderChecker::StreamId id : ids_) checker_->remove_stream(id);
}

Event MetaStreams::record(StreamRole role) {
  const EventId id = tape_.new_event();
  tape_.add(EntryKind::kRecord, role, id);
  return event_of(id, checker_ != nullptr ? checker_->record(stream_of(role)) : VectorClock());
}

void MetaStreams::follows(StreamRole role, const Event& event) {
  const VectorClock* moment = recorded_moment(event);
  if (checker_ != nullptr && moment != nullptr) checker_->wait(stream_of(role), *moment);
}

void MetaStreams::wait(StreamRole role, const Event& event) {
  follows(role, event);
  tape_.add(EntryKind::kWait, role, id_of(event));
}

bool MetaStreams::reached(const Event& event) {
  const VectorClock* moment = recorded_moment(event);
  if (checker_ != nullptr && moment != nullptr) checker_->seen_by_host(*moment);
  return true;
}

void MetaStreams::synchronize(const Event& event) {
  ++synchronizations_;
  static_cast<void>(reached(event));
  tape_.add(EntryKind::kHostWait, StreamRole::kCompute, id_of(event));
}

void MetaStreams::copy(StreamRole role, void* to, const void*, std::size_t bytes, CopyKind kind) {
  const Latest& of = latest(role);
  if (TapedWork* work = under_way(role)) {
    work->kind = kind == CopyKind::kDeviceToDevice ? WorkKind::kCopy : WorkKind::kHostCopy;
  }
  if (kind != CopyKind::kDeviceToHost || to == nullptr) return;
  if (bytes > kMostReadOfNothing) {
    throw Error(fmt::format(
        "{} in phase {}, after {}: the host would read {} of a device that computes nothing; at "
        "most {} are zeros for it. Whoever reads must do without the numbers there (has_numbers), "
        "and write down the work alone.",
        in_quotes(of.operation), in_quotes(phase_), in_quotes(of.before), format_bytes(bytes),
        format_bytes(kMostReadOfNothing)));
  }
  if (bytes > 0) std::memset(to, 0, bytes);
}

void MetaStreams::upload(StreamRole role, void* to, const void*, std::size_t bytes) {
  const Launch launch(*this, role, "upload", {}, {Region{to, bytes}});
  copy(role, to, nullptr, bytes, CopyKind::kHostToDevice);
}

void MetaStreams::uses(StreamRole role, std::string_view operation, std::span<const Region> reads,
                       std::span<const Region> writes) {
  if (checker_ != nullptr) checker_->use(stream_of(role), operation, reads, writes);
  Latest& of = latest(role);
  std::swap(of.before, of.operation);
  of.operation = operation;
  if (!tape_.runs()) return;
  of.work = tape_.add(role, {.name = tape_.name(operation),
                             .read_bytes = bytes_of(reads),
                             .written_bytes = bytes_of(writes)});
}

void MetaStreams::host_uses(std::string_view operation, std::span<const Region> reads,
                            std::span<const Region> writes) {
  if (checker_ != nullptr) checker_->use_by_host(operation, reads, writes);
}

Event MetaStreams::exchanges(std::string_view operation, std::span<const Region> reads,
                             std::span<const Region> writes, const Event& ready, EventId end) {
  if (checker_ == nullptr) return event_of(end);
  follows(StreamRole::kCommunication, ready);
  const OrderChecker::StreamId stream = stream_of(StreamRole::kCommunication);
  checker_->use(stream, operation, reads, writes);
  return event_of(end, checker_->record(stream));
}

void MetaStreams::mark_phase(std::string_view phase) {
  phase_ = phase;
  tape_.set_phase(phase);
}

}  // namespace ultra::gpu
