// What is checked and counted at each access of a thread.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {
namespace {

// A thread that repeats a read so often without any change lets the others run ...
constexpr std::uint32_t kRepetitionsPerTurn = 256;
// ... and after so many turns in which nobody did anything else, nobody ever will.
constexpr std::uint32_t kMostIdleTurns = 8192;

AccessKind kind_of(Operation operation, bool is_shared) {
  switch (operation) {
    case Operation::kLoad:
      return is_shared ? AccessKind::kSharedLoad : AccessKind::kGlobalLoad;
    case Operation::kStore:
      return is_shared ? AccessKind::kSharedStore : AccessKind::kGlobalStore;
    case Operation::kAtomic:
      break;
  }
  return is_shared ? AccessKind::kSharedAtomic : AccessKind::kGlobalAtomic;
}

ShadowUse use_of(const Access& access) {
  switch (access.operation) {
    case Operation::kLoad:
      return ShadowUse::kRead;
    case Operation::kStore:
      return access.value != nullptr && std::memcmp(access.address, access.value, access.size) == 0
                 ? ShadowUse::kRewrite
                 : ShadowUse::kWrite;
    case Operation::kAtomic:
      break;
  }
  return ShadowUse::kAtomic;
}

constexpr int kMostAccessesSinceUnwritten = 1'000'000;

}  // namespace

void Engine::observe(const Access& access) {
  if (unwritten_ && ++accesses_since_unwritten_ > kMostAccessesSinceUnwritten) {
    fail_if_unwritten();  // the poison that was read may be a loop's bound
  }
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  SharedArray* const array =
      access.space == MemorySpace::kGlobal ? nullptr : shared().find(address);
  if (array != nullptr) {
    observe_shared(access, address, *array);
  } else if (access.space != MemorySpace::kShared) {
    check_global(access, address);
    count(access, false);
  } else {
    fail_outside(access, address);
  }
  if (access.operation == Operation::kLoad) {
    watch_repetition(access.address, access.place);
  } else if (access.operation == Operation::kStore) {
    threads_[running_].repeated_address = nullptr;
    idle_turns_ = 0;
  }
}

void Engine::check_global(const Access& access, std::uintptr_t address) {
  BufferRecord* const buffer = find_buffer(address, access.size);
  if (buffer == nullptr) {
    fail_outside(access, address);
  }
  const std::size_t offset = address - buffer->begin;
  if (address % access.alignment != 0) {
    fail(Fault::kMisaligned, access.place,
         fmt::format("an access of {} bytes to buffer '{}' at byte {}, expected a multiple of {}. "
                     "Hint: vector accesses need aligned rows; use single elements where a row's "
                     "length is no multiple of the vector's",
                     access.size, buffer->name, offset, access.alignment));
  }
  note_order(access, buffer);
  const auto written = buffer->written.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto size = static_cast<std::ptrdiff_t>(access.size);
  if (access.operation == Operation::kStore) {
    std::fill(written, written + size, std::uint8_t{1});
  } else if (std::find(written, written + size, std::uint8_t{0}) != written + size) {
    fail(Fault::kUninitialised, access.place,
         fmt::format("reads element {} of buffer '{}', which nobody has written, expected values. "
                     "Hint: upload the input, or fill what the kernel accumulates into",
                     offset / buffer->element_size, buffer->name));
  }
}

void Engine::observe_shared(const Access& access, std::uintptr_t address, SharedArray& array) {
  const std::size_t offset = address - array.begin;
  const bool is_dynamic = array.begin == reinterpret_cast<std::uintptr_t>(shared().dynamic());
  if (blocks_.size() > 1 && !is_dynamic) {
    fail(Fault::kLaunch, access.place,
         fmt::format("uses {}, a __shared__ variable in a kernel of clusters, expected dynamic "
                     "shared memory: the emulator has one such variable for all blocks of a "
                     "cluster. Hint: dynamic_shared()",
                     array.name));
  }
  if (offset + access.size > array.bytes) {
    fail_outside(access, address);
  }
  if (address % access.alignment != 0) {
    fail(Fault::kMisaligned, access.place,
         fmt::format("an access of {} bytes to {} at byte {}, expected an address that is a "
                     "multiple of {}. Hint: pad rows by a multiple of the vector's length, and "
                     "declare the array with __align__({})",
                     access.size, array.name, offset, access.alignment, access.alignment));
  }
  const AccessKind kind = kind_of(access.operation, true);
  const std::uint32_t site = counters_.site_of(access.place, kind, access.size);
  const ShadowMark mark = mark_of(site);
  if (units_.are_used() && is_dynamic) {
    observe_ordered(access, array, offset);
    counters_.record(running_ / 32, lane(), site, address);
    return;
  }
  const Moment now = block().now;
  if (access.operation == Operation::kLoad &&
      array.shadow.note_plain_read(offset, access.size, mark, now)) {
    counters_.record(running_ / 32, lane(), site, address);
    return;
  }
  const bool is_unwritten =
      access.operation != Operation::kStore && !array.shadow.is_written(offset, access.size, now);
  // A copy in flight may have been issued since the last barrier: that is a race.
  const auto race = array.shadow.touch(offset, access.size, use_of(access), mark, now);
  if (race) {
    fail_race(access, array, offset, *race);
  }
  if (is_unwritten) {
    note_unwritten(access, array, offset);
  }
  counters_.record(running_ / 32, lane(), site, address);
}

// Barriers that count order more than the shadow of intervals knows of: the units' books do.
void Engine::observe_ordered(const Access& access, SharedArray& array, std::size_t offset) {
  const Moment now = block().now;
  units_.observe(access, offset);
  if (access.operation == Operation::kStore) {
    array.shadow.note_written(offset, access.size, now);
  } else if (!array.shadow.is_written(offset, access.size, now)) {
    fail_unwritten(access, array, offset);
  }
}

// If another thread writes these bytes before the next barrier, the fault is the missing barrier, and
// the write will say so. Otherwise nobody writes them: that is known at the barrier or the block's end.
void Engine::note_unwritten(const Access& access, const SharedArray& array, std::size_t offset) {
  if (find_copy(array.begin + offset, access.size) != nullptr) {
    fail_unwritten(access, array, offset);
  }
  if (!unwritten_) {
    try {
      fail_unwritten(access, array, offset);
    } catch (const SimtError&) {
      unwritten_ = std::current_exception();
      accesses_since_unwritten_ = 0;
    }
  }
}

void Engine::fail_if_unwritten() const {
  if (unwritten_) {
    std::rethrow_exception(unwritten_);
  }
}

ShadowMark Engine::mark_of(std::uint32_t site) const {
  return {.thread = static_cast<std::uint16_t>(running_),
          .site = static_cast<std::uint16_t>(site),
          .warp_epoch = threads_[running_].warp_epoch};
}

void Engine::count(const Access& access, bool is_shared) {
  const AccessKind kind = kind_of(access.operation, is_shared);
  counters_.record(running_ / 32, lane(), counters_.site_of(access.place, kind, access.size),
                   reinterpret_cast<std::uintptr_t>(access.address));
}

void Engine::observe_branch(bool taken, SourceLine place) {
  counters_.record(running_ / 32, lane(), counters_.site_of(place, AccessKind::kBranch, 0),
                   taken ? 1 : 0);
}

BufferRecord* Engine::find_buffer(std::uintptr_t address, std::size_t size) {
  if (recent_buffer_ != nullptr && recent_buffer_->contains(address, size)) {
    return recent_buffer_;
  }
  const auto behind = std::upper_bound(
      buffers_.begin(), buffers_.end(), address,
      [](std::uintptr_t value, const auto& buffer) { return value < buffer->begin; });
  if (behind == buffers_.begin() || !(*(behind - 1))->contains(address, size)) {
    return nullptr;
  }
  return recent_buffer_ = (behind - 1)->get();
}

void Engine::after_atomic(const void* address, bool changed, SourceLine place) {
  if (changed) {
    threads_[running_].repeated_address = nullptr;
    idle_turns_ = 0;
  } else {
    watch_repetition(address, place);
  }
}

// Threads take turns only where they wait: one that reads until another writes would read for ever.
void Engine::watch_repetition(const void* address, SourceLine place) {
  Thread& thread = threads_[running_];
  if (thread.repeated_address != address || thread.repeated_line != place.line) {
    thread.repeated_address = address;
    thread.repeated_line = place.line;
    thread.repetitions = 0;
    return;
  }
  if (++thread.repetitions < kRepetitionsPerTurn) {
    return;
  }
  thread.repetitions = 0;
  thread.place = place;
  if (++idle_turns_ > kMostIdleTurns) {
    fail(
        Fault::kSpinWait, place,
        "repeats this access for ever: the value does not change, and no other thread of the block "
        "does anything else; expected progress. Hint: blocks run one after the other here, so a "
        "block cannot wait for a later one; inside a block wait with __syncthreads()");
  }
  suspend(Turn::kEverybody);
}

}  // namespace ultra::simt::emulator
