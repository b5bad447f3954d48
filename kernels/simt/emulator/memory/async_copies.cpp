// Copies in flight: checked and counted when they are issued, written when their thread waits for them.
//
// To the shadow of shared memory an issue is a write, so it races with what others still read there;
// but the bytes count as unwritten until the copy lands. The landing is a write once more: others read
// the bytes behind a barrier that follows it.

#include "kernels/simt/emulator/memory/async_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {

void Engine::begin_copy(const AsyncCopy& copy) {
  if (copy.source_size > copy.size) {
    fail(Fault::kOutOfBounds, copy.place,
         fmt::format("copy_async() of {} bytes has {} source bytes, expected 0 to {}. Hint: clamp "
                     "what is left of the row to that range",
                     copy.size, static_cast<std::ptrdiff_t>(copy.source_size), copy.size));
  }
  CopyInFlight flight{.destination = static_cast<std::byte*>(copy.shared),
                      .size = copy.size,
                      .value = {},
                      .group = copies_[running_].groups,
                      .place = copy.place};
  if (copy.source_size > 0) {
    observe({.operation = Operation::kLoad,
             .space = MemorySpace::kGlobal,
             .address = copy.global,
             .size = copy.source_size,
             .alignment = copy.size,
             .value = nullptr,
             .place = copy.place});
    std::memcpy(flight.value.data(), copy.global, copy.source_size);
  }
  const Access store = store_of(flight);
  observe(store);
  const auto address = reinterpret_cast<std::uintptr_t>(copy.shared);
  SharedArray& array = *shared().find(address);
  array.shadow.forget(address - array.begin, copy.size);
  copies_[running_].copies.push_back(flight);
}

void Engine::commit_copies() { ++copies_[running_].groups; }

void Engine::land_copies(std::uint32_t pending) {
  CopyQueue& queue = copies_[running_];
  const auto has_landed = [&queue, pending](const CopyInFlight& copy) {
    return copy.group + pending < queue.groups;
  };
  for (const CopyInFlight& copy : queue.copies) {
    if (has_landed(copy)) {
      land(copy);
    }
  }
  std::erase_if(queue.copies, has_landed);
}

// The value is written after the check, so that it is no rewrite of what is there already.
void Engine::land(const CopyInFlight& copy) {
  const auto address = reinterpret_cast<std::uintptr_t>(copy.destination);
  SharedArray& array = *shared().find(address);
  const std::size_t offset = address - array.begin;
  const ShadowMark mark =
      mark_of(counters_.site_of(copy.place, AccessKind::kSharedStore, copy.size));
  const auto race = array.shadow.touch(offset, copy.size, ShadowUse::kWrite, mark, block().now);
  if (race) {
    fail_race(store_of(copy), array, offset, *race);
  }
  std::memcpy(copy.destination, copy.value.data(), copy.size);
  idle_turns_ = 0;
}

Access Engine::store_of(const CopyInFlight& copy) {
  return {.operation = Operation::kStore,
          .space = MemorySpace::kShared,
          .address = copy.destination,
          .size = copy.size,
          .alignment = copy.size,
          .value = nullptr,
          .place = copy.place};
}

// The copy in flight, of any thread, that will write these bytes; null if there is none.
const CopyInFlight* Engine::find_copy(std::uintptr_t address, std::size_t size) const {
  for (const CopyQueue& queue : copies_) {
    const auto found = std::ranges::find_if(
        queue.copies, [&](const CopyInFlight& copy) { return copy.meets(address, size); });
    if (found != queue.copies.end()) {
      return &*found;
    }
  }
  return nullptr;
}

void begin_copy(const AsyncCopy& copy) { Engine::of_this_thread().begin_copy(copy); }
void commit_copies() { Engine::of_this_thread().commit_copies(); }
void land_copies(std::uint32_t pending) { Engine::of_this_thread().land_copies(pending); }

}  // namespace ultra::simt::emulator
