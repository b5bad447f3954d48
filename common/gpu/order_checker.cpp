#include "common/gpu/order_checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ultra::gpu {
namespace {

constexpr OrderChecker::StreamId kHost = 0;

std::uint64_t at(const VectorClock& clock, std::size_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

void merge(VectorClock& into, const VectorClock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

std::uint64_t tick(VectorClock& clock, std::size_t stream) {
  if (clock.size() <= stream) clock.resize(stream + 1);
  return ++clock[stream];
}

template <class Fn>
void for_each_run(const Region& region, const Fn& fn) {
  if (region.bytes == 0) return;
  const auto first = reinterpret_cast<std::uintptr_t>(region.begin);
  for (std::size_t run = 0; run < region.runs; ++run) {
    const std::uintptr_t begin = first + run * region.stride;
    fn(begin, begin + region.bytes);
  }
}

}  // namespace

OrderChecker::OrderChecker() : streams_(1) { streams_[kHost].in_use = true; }

OrderChecker::StreamId OrderChecker::add_stream(int rank, StreamRole role) {
  const std::lock_guard lock(mutex_);
  auto place = std::ranges::find(streams_, false, &Stream::in_use);
  if (place == streams_.end()) place = streams_.insert(place, Stream{});
  // The clock goes on where the place's last stream ended, so that its accesses stay in the past.
  place->rank = rank;
  place->role = role;
  place->in_use = true;
  return static_cast<StreamId>(place - streams_.begin());
}

void OrderChecker::remove_stream(StreamId stream) {
  const std::lock_guard lock(mutex_);
  streams_[stream].in_use = false;
}

VectorClock OrderChecker::record(StreamId stream) {
  const std::lock_guard lock(mutex_);
  return streams_[stream].clock;
}

void OrderChecker::wait(StreamId stream, const VectorClock& moment) {
  const std::lock_guard lock(mutex_);
  merge(streams_[stream].clock, moment);
}

void OrderChecker::seen_by_host(const VectorClock& moment) {
  const std::lock_guard lock(mutex_);
  merge(threads_[std::this_thread::get_id()], moment);
}

void OrderChecker::use(StreamId stream, std::string_view operation, std::span<const Region> reads,
                       std::span<const Region> writes) {
  const std::lock_guard lock(mutex_);
  merge(streams_[stream].clock, threads_[std::this_thread::get_id()]);
  note(stream, operation, reads, writes);
}

void OrderChecker::use_by_host(std::string_view operation, std::span<const Region> reads,
                               std::span<const Region> writes) {
  const std::lock_guard lock(mutex_);
  streams_[kHost].clock = threads_[std::this_thread::get_id()];
  note(kHost, operation, reads, writes);
}

void OrderChecker::note(StreamId stream, std::string_view operation, std::span<const Region> reads,
                        std::span<const Region> writes) {
  auto name = operations_.find(operation);
  if (name == operations_.end()) name = operations_.emplace(operation).first;
  const Access access{stream, tick(streams_[stream].clock, stream), &*name};
  for (const Region& region : reads) {
    for_each_run(region,
                 [&](std::uintptr_t begin, std::uintptr_t end) { read(access, begin, end); });
  }
  for (const Region& region : writes) {
    for_each_run(region,
                 [&](std::uintptr_t begin, std::uintptr_t end) { write(access, begin, end); });
  }
}

/// The first segment that begins at or behind `address`, after the one that holds it is cut there.
OrderChecker::Segments::iterator OrderChecker::split(std::uintptr_t address) {
  const auto next = segments_.lower_bound(address);
  if (next == segments_.begin()) return next;
  Segment& before = std::prev(next)->second;
  if (before.end <= address) return next;
  Segment rest = before;
  before.end = address;
  return segments_.emplace_hint(next, address, std::move(rest));
}

void OrderChecker::read(const Access& access, std::uintptr_t begin, std::uintptr_t end) {
  split(end);
  auto next = split(begin);
  for (std::uintptr_t place = begin; place < end; place = next->second.end, ++next) {
    if (next == segments_.end() || next->first > place) {  // nobody has been here
      const std::uintptr_t gap_end = next == segments_.end() ? end : std::min(end, next->first);
      next = segments_.emplace_hint(next, place, Segment{gap_end, {}, {}});
    }
    Segment& segment = next->second;
    check(segment.write, "writes", access, "reads", segment.end - place);
    std::erase_if(segment.reads,
                  [&](const Access& other) { return is_before(other, access.stream); });
    segment.reads.push_back(access);
  }
}

void OrderChecker::write(const Access& access, std::uintptr_t begin, std::uintptr_t end) {
  const auto last = split(end);
  const auto first = split(begin);
  // split(begin) may cut what split(end) returned the successor of; `last` stays valid.
  for (auto it = first; it != last; ++it) {
    const Segment& segment = it->second;
    const std::size_t bytes = segment.end - it->first;
    check(segment.write, "writes", access, "writes", bytes);
    for (const Access& other : segment.reads) check(other, "reads", access, "writes", bytes);
  }
  segments_.erase(first, last);
  segments_.emplace_hint(last, begin, Segment{end, access, {}});
}

bool OrderChecker::is_before(const Access& earlier, StreamId stream) const {
  // What the host did itself is over when anything is launched.
  return earlier.stream == kHost || at(streams_[stream].clock, earlier.stream) >= earlier.count;
}

void OrderChecker::check(const Access& earlier, const char* earlier_does, const Access& now,
                         const char* now_does, std::size_t bytes) const {
  if (earlier.count == 0 || is_before(earlier, now.stream)) return;
  const std::string first = name_of(earlier.stream);
  const std::string second = name_of(now.stream);
  const std::string mend =
      now.stream == kHost
          ? fmt::format(
                "let the host wait for it (Streams::synchronize) or see it "
                "(Streams::reached) before {}",
                *now.operation)
          : fmt::format("let {} wait for it (Streams::wait) before {}", second, *now.operation);
  throw OrderError(fmt::format(
      "no order between two accesses of the same {} bytes: {} {} them in {}, {} {} them in {}. "
      "Record an event of {} after {} (Streams::record) and {}.",
      bytes, first, earlier_does, *earlier.operation, second, now_does, *now.operation, first,
      *earlier.operation, mend));
}

std::string OrderChecker::name_of(StreamId stream) const {
  if (stream == kHost) return "the host";
  const Stream& which = streams_[stream];
  return fmt::format("rank {}'s {} stream", which.rank, to_string(which.role));
}

void OrderChecker::forget(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const auto last = split(address + bytes);
  segments_.erase(split(address), last);
}

}  // namespace ultra::gpu
