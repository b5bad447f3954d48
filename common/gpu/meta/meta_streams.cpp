#include "common/gpu/meta/meta_streams.hpp"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/gpu/meta/meta_event.hpp"
#include "kernels/table/table.hpp"

namespace ultra::gpu {
namespace {

/// What the checker knew when an event was recorded; null without one.
const VectorClock* recorded_moment(const Event& event) {
  const auto* known = static_cast<const MetaEvent*>(event.state());
  return known == nullptr || known->moment.empty() ? nullptr : &known->moment;
}

constexpr std::size_t kMetaAlignment = 256;
constexpr auto kMetaPinnedAlignment = std::align_val_t{64};
/// Above what a process of 48-bit addresses has: a look at it ends the program.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 56;

/// Becomes any function, which does nothing.
struct Nothing {
  template <class Result, class... Arguments>
  using Function = Result (*)(Arguments...);

  template <class Result, class... Arguments>
  operator Function<Result, Arguments...>() const {  // NOLINT(google-explicit-constructor)
    return [](Arguments...) -> Result { return Result(); };
  }
};

template <std::size_t... rows>
kernels::Table table_of_nothing(std::index_sequence<rows...>) {
  return {(static_cast<void>(rows), Nothing())...};
}

const kernels::Table& kernels_that_do_nothing() {
  constexpr std::size_t kRows = sizeof(kernels::Table) / sizeof(void (*)());
  static const kernels::Table table = table_of_nothing(std::make_index_sequence<kRows>());
  return table;
}

class MetaRuntime : public Runtime {
 public:
  MetaRuntime(Tape& tape, bool checks_order)
      : tape_(tape), checker_(checks_order ? std::make_unique<OrderChecker>() : nullptr) {}

  const DeviceProperties& properties() const override { return properties_; }
  const kernels::Table& kernels() const override { return kernels_that_do_nothing(); }

  void* allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t block = next_;
    next_ += round_up(bytes, kMetaAlignment) + kMetaAlignment;
    return reinterpret_cast<void*>(block);  // NOLINT(performance-no-int-to-ptr)
  }

  void release(void* block, std::size_t bytes) noexcept override {
    if (checker_) checker_->forget(block, bytes);
  }

  void* allocate_pinned(std::size_t bytes) override {
    return ::operator new(bytes, kMetaPinnedAlignment);
  }

  void release_pinned(void* block, std::size_t) noexcept override {
    ::operator delete(block, kMetaPinnedAlignment);
  }

  std::size_t free_bytes() const override { return 0; }
  bool host_can_read() const override { return false; }

  std::unique_ptr<Streams> make_streams(int rank) override {
    return std::make_unique<MetaStreams>(tape_, checker_.get(), rank);
  }

 private:
  Tape& tape_;
  std::unique_ptr<OrderChecker> checker_;  // null: nobody asks
  DeviceProperties properties_ = {.name = "meta", .id = "meta"};
  std::mutex mutex_;
  std::uintptr_t next_ = kFirstAddress;
};

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

std::shared_ptr<Runtime> make_meta_runtime(Tape& tape, bool checks_order) {
  return std::make_shared<MetaRuntime>(tape, checks_order);
}

}  // namespace ultra::gpu
