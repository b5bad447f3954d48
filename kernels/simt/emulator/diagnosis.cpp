// What the engine says about a fault: who, where, what, and what to do.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/simt/emulator/engine.hpp"
#include "kernels/simt/emulator/language/vector_types.hpp"

namespace ultra::simt::emulator {
namespace {

std::string to_text(const uint3& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

std::string to_text(const SourceLine& place) {
  return fmt::format("{}:{}", place.file, place.line);
}

const char* verb_of(Operation operation) {
  switch (operation) {
    case Operation::kLoad:
      return "reads";
    case Operation::kStore:
      return "writes";
    case Operation::kAtomic:
      break;
  }
  return "atomically changes";
}

std::string lanes_text(LaneMask lanes) { return fmt::format("{:#010x}", lanes); }

}  // namespace

std::string Engine::thread_text(std::size_t thread) const {
  const Extents& block = config_->block;
  thread %= block_threads_;
  return fmt::format("thread ({}, {}, {})", thread % block.x, thread / block.x % block.y,
                     thread / block.x / block.y);
}

// What a thread other than the running one does, as a clause.
std::string Engine::where_is(std::size_t thread) const {
  const Warp& warp = warps_[thread / 32];
  const LaneMask bit = LaneMask{1} << thread % 32;
  const std::string name = thread_text(thread);
  if ((warp.exited & bit) != 0) {
    return name + " has returned from the kernel";
  }
  if ((warp.at_barrier & bit) != 0) {
    return name + " waits at the barrier " + to_text(threads_[thread].place);
  }
  if ((warp.meeting & bit) != 0) {
    const Meeting& meeting = threads_[thread].meeting;
    return fmt::format("{} waits in {} at {} for the lanes {}", name, meeting.name,
                       to_text(meeting.place), lanes_text(meeting.mask));
  }
  if ((warp.resting & bit) != 0) {
    return fmt::format("{} {} at {}", name, units_.waits_for(thread),
                       to_text(threads_[thread].place));
  }
  return name + " is elsewhere";
}

void Engine::fail(Fault fault, SourceLine place, const std::string& what) const {
  fail_in(running_, fault, place, what);
}

void Engine::fail_in(std::size_t thread, Fault fault, SourceLine place,
                     const std::string& what) const {
  if (fault != Fault::kRace) {
    fail_if_unwritten();  // which may be why this happens
  }
  const std::string line = place.file == nullptr ? "" : " at " + to_text(place);
  const char* const end = what.ends_with('?') ? "" : ".";
  throw SimtError(fault, fmt::format("{}{}: block {}, {}: {}{}", config_->name, line,
                                     to_text(blocks_[thread / block_threads_].index),
                                     thread_text(thread), what, end));
}

void Engine::fail_outside(const Access& access, std::uintptr_t address) {
  if (access.space == MemorySpace::kShared && find_buffer(address, 1) != nullptr) {
    fail(Fault::kWrongMemory, access.place,
         fmt::format("a shared-memory access to buffer '{}', expected shared memory. Hint: use "
                     "ldg() and stg() for buffers",
                     recent_buffer_->name));
  }
  if (access.space == MemorySpace::kGlobal && shared().find(address) != nullptr) {
    fail(Fault::kWrongMemory, access.place,
         fmt::format("a global access to {}, expected a buffer. Hint: use lds() and sts() for "
                     "shared memory",
                     shared().find(address)->name));
  }
  if (access.space != MemorySpace::kGlobal) {
    const SharedArray* const array = shared().last_before(address);
    if (array != nullptr && address - array->begin < array->bytes + kMostSharedBytes) {
      fail(Fault::kOutOfBounds, access.place,
           fmt::format("{} {} bytes at byte {} of {}, expected an offset inside its {} bytes. "
                       "Hint: {}",
                       verb_of(access.operation), access.size, address - array->begin, array->name,
                       array->bytes,
                       array->bytes == 0 ? "set Config::shared_bytes" : "check the index"));
    }
  }
  // The buffer that lies closest says which index was meant.
  const BufferRecord* closest = nullptr;
  std::uintptr_t distance = std::uintptr_t{1} << 30;
  for (const auto& buffer : buffers_) {
    const std::uintptr_t behind = address - buffer->begin;
    const std::uintptr_t before = buffer->begin - address;
    const std::uintptr_t gap =
        address >= buffer->begin ? behind - std::min(behind, buffer->bytes) : before;
    if (gap < distance) {
      distance = gap;
      closest = buffer.get();
    }
  }
  if (closest == nullptr) {
    fail(Fault::kOutOfBounds, access.place,
         fmt::format("{} {} bytes outside every buffer, expected memory of a Buffer. Hint: is the "
                     "pointer null, or memory of the host?",
                     verb_of(access.operation), access.size));
  }
  const auto offset = static_cast<std::ptrdiff_t>(address - closest->begin);
  const auto element = static_cast<std::ptrdiff_t>(closest->element_size);
  const std::ptrdiff_t index =
      offset >= 0 ? offset / element : -((-offset + element - 1) / element);
  fail(Fault::kOutOfBounds, access.place,
       fmt::format("{} {} bytes at index {} of buffer '{}', expected an index below {}. Hint: does "
                   "the kernel check the edge of a shape that is no multiple of the block?",
                   verb_of(access.operation), access.size, index, closest->name,
                   closest->bytes / closest->element_size));
}

void Engine::fail_unwritten(const Access& access, const SharedArray& array,
                            std::size_t offset) const {
  const CopyInFlight* const copy = find_copy(array.begin + offset, access.size);
  if (copy != nullptr) {
    fail(Fault::kUninitialised, access.place,
         fmt::format("reads byte {} of {}, which the copy at {} has not written yet, expected a "
                     "value. Hint: the thread that copies must close the group with "
                     "commit_copies() and wait for it with wait_copies(); then __syncthreads() "
                     "for the others",
                     offset, array.name, to_text(copy->place)));
  }
  fail(Fault::kUninitialised, access.place,
       fmt::format("reads byte {} of {}, which no thread of this block has written, expected a "
                   "value. Hint: shared memory keeps nothing from block to block; at a ragged "
                   "edge, store zeros",
                   offset, array.name));
}

void Engine::fail_race(const Access& access, const SharedArray& array, std::size_t offset,
                       const Race& race) {
  fail(
      Fault::kRace, access.place,
      fmt::format("{} byte {} of {}, which {} {} at {} with no barrier between them; expected one. "
                  "Hint: put a __syncthreads() between the two lines (in a loop, also between its "
                  "end and its next beginning)",
                  verb_of(access.operation), offset, array.name, thread_text(race.earlier.thread),
                  race.earlier_wrote ? "writes" : "reads",
                  to_text(counters_.place_of(race.earlier.site))));
}

void Engine::refuse_source(int lane, int source, LaneMask mask) {
  const std::size_t thread = running_ / 32 * 32 + static_cast<std::size_t>(lane);
  fail_in(
      thread, Fault::kMask, threads_[thread].place,
      fmt::format("{} takes the value of lane {}, but the lanes that take part are {}; expected a "
                  "lane that takes part. Hint: use whole warps, and a mask that names all lanes "
                  "that call it",
                  threads_[thread].meeting.name, source, lanes_text(mask)));
}

// Why the lanes that a thread waits for in a warp operation will not come.
void Engine::diagnose_meeting(std::size_t thread) {
  const std::size_t first = thread / 32 * 32;
  const Warp& own = warps_[thread / 32];
  const Meeting& meeting = threads_[thread].meeting;
  const std::string what =
      fmt::format("waits in {} for the lanes {}", meeting.name, lanes_text(meeting.mask));
  const LaneMask bit = LaneMask{1} << thread % 32;
  if ((meeting.mask & bit) == 0) {
    fail_in(thread, Fault::kMask, meeting.place,
            what +
                ", without itself; expected a mask that names its caller. Hint: __ballot_sync() of "
                "the condition gives the mask of the lanes for which it holds");
  }
  if (const LaneMask gone = own.exited; (meeting.mask & gone) != 0) {
    fail(
        Fault::kMask, meeting.place,
        fmt::format("{}, of which {} have returned from the kernel; expected lanes that still run. "
                    "Hint: keep threads without work until the end instead of returning early",
                    what, lanes_text(meeting.mask & gone)));
  }
  for (LaneMask rest = meeting.mask & own.existing & ~bit; rest != 0; rest &= rest - 1) {
    const std::size_t other = first + static_cast<std::size_t>(std::countr_zero(rest));
    const LaneMask other_bit = LaneMask{1} << other % 32;
    const bool meets_alike = (own.meeting & other_bit) != 0 &&
                             threads_[other].meeting.mask == meeting.mask &&
                             threads_[other].meeting.resolve == meeting.resolve;
    if (!meets_alike && ((own.meeting | own.at_barrier) & other_bit) != 0) {
      fail_in(
          thread, Fault::kWarpOperation, meeting.place,
          fmt::format("{}, but {}; expected all of them in the same operation with the same mask. "
                      "Hint: move the operation out of the branch, or name only the lanes that "
                      "take the branch",
                      what, where_is(other)));
    }
  }
}

// Nobody can run, and some threads have not ended.
void Engine::diagnose_stall() {
  for (std::size_t thread = 0; thread < thread_count_; ++thread) {
    if ((warps_[thread / 32].meeting >> thread % 32 & 1U) != 0) {
      diagnose_meeting(thread);
    }
  }
  units_.diagnose_stall();
  const auto stuck =
      std::ranges::find_if(blocks_, [](const Block& block) { return block.at_barrier != 0; });
  const auto rank = static_cast<std::size_t>(stuck - blocks_.begin());
  const std::size_t waiting = stuck->first_at_barrier;
  for (std::size_t thread = rank * block_threads_; thread < (rank + 1) * block_threads_; ++thread) {
    if ((warps_[thread / 32].exited >> thread % 32 & 1U) != 0) {
      fail_in(
          waiting, Fault::kBarrier, threads_[waiting].place,
          fmt::format("{} of {} threads wait at this barrier, but {} ({} in all); expected every "
                      "thread of the block. Hint: keep threads without work until the last "
                      "barrier instead of returning early",
                      stuck->at_barrier, block_threads_, where_is(thread), stuck->exited));
    }
  }
  fail_in(waiting, Fault::kBarrier, threads_[waiting].place, "the threads wait for each other");
}

}  // namespace ultra::simt::emulator
