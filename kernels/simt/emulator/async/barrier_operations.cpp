// Barriers that count: mbarrier, named barriers and the cluster's.

#include <fmt/format.h>

#include <cstring>

#include "kernels/simt/emulator/async/barriers.hpp"
#include "kernels/simt/emulator/async/units.hpp"
#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::uint32_t kMostArrivals = (1U << 20) - 1;
constexpr std::int64_t kMostBytes = (1 << 20) - 1;
constexpr std::uint64_t kBarrierBytes = 8;
// What the memory of a barrier holds: whoever overwrites it is found out.
constexpr std::uint64_t kMark = 0x6261727269657221;

std::uint64_t content_of(const void* barrier) {
  std::uint64_t content = 0;
  std::memcpy(&content, barrier, sizeof content);
  return content;
}

}  // namespace

void PhaseBarrier::complete() {
  ++phase;
  missing = arrivals;
  announced = 0;
  come = 0;
  completed.join(arriving);
  completed.learn({.slot = slot, .count = phase});
  arriving = Clock();
}

std::string PhaseBarrier::to_text() const {
  return fmt::format("{} of {} arrivals and {} of {} bytes", arrivals - missing, arrivals, come,
                     announced);
}

bool GatheringBarrier::open_if_complete() {
  if (come < expected) {
    return false;
  }
  ++openings;
  come = 0;
  expected = 0;
  opened.join(arriving);
  arriving = Clock();
  return true;
}

std::string Units::name_of(const PhaseBarrier& barrier) const {
  return fmt::format("barrier at byte {} of dynamic shared memory", barrier.offset);
}

void Units::init_barrier(void* barrier, std::uint32_t arrivals, SourceLine place) {
  use();
  const std::uintptr_t offset = offset_of(barrier);
  if (offset % kBarrierBytes != 0 || offset + kBarrierBytes > engine_.config_->shared_bytes) {
    fail(Fault::kOutOfBounds, place,
         fmt::format("makes a barrier at byte {} of {} of dynamic shared memory, expected a "
                     "multiple of 8 inside of it",
                     static_cast<std::ptrdiff_t>(offset), engine_.config_->shared_bytes));
  }
  if (arrivals == 0 || arrivals > kMostArrivals) {
    fail(Fault::kBarrier, place,
         fmt::format("makes a barrier of {} arrivals, expected 1 to {}", arrivals, kMostArrivals));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  if (phases_.contains(address)) {
    fail(Fault::kBarrier, place,
         fmt::format("makes the {} again, expected once. Hint: let one thread make it",
                     name_of(phases_.at(address))));
  }
  std::memcpy(barrier, &kMark, sizeof kMark);
  phases_[address] = {.arrivals = arrivals,
                      .missing = arrivals,
                      .made = order_.now(warp()),
                      .maker = engine_.running_,
                      .slot = order_.new_slot(),
                      .offset = offset};
}

void Units::publish_barriers() {
  use();
  for (auto& [address, barrier] : phases_) {
    if (barrier.maker == engine_.running_) {
      barrier.is_published = true;
    }
  }
  order_.show(warp());
}

void Units::show_to_engines() {
  use();
  order_.show(warp());
}

PhaseBarrier& Units::find_barrier(const void* barrier, std::size_t block, SourceLine place) {
  use();
  const std::uintptr_t offset = offset_of(barrier);
  const std::byte* const own = memory_of(block) + offset;
  const auto found = phases_.find(reinterpret_cast<std::uintptr_t>(own));
  if (found == phases_.end()) {
    fail(Fault::kBarrier, place,
         fmt::format("uses a barrier at byte {} of dynamic shared memory{} that nobody has made, "
                     "expected init_barrier() before",
                     static_cast<std::ptrdiff_t>(offset),
                     block == this->block() ? "" : fmt::format(" of block {}", block)));
  }
  PhaseBarrier& state = found->second;
  if (content_of(own) != kMark) {
    fail(Fault::kBarrier, place,
         fmt::format("uses the {}, whose 8 bytes somebody has overwritten; expected nobody. Hint: "
                     "do the boxes have the size of their places?",
                     name_of(state)));
  }
  if (!order_.of(warp()).knows(state.made)) {
    fail(Fault::kRace, place,
         fmt::format("uses the {}, which {} makes with nothing in between; expected a barrier of "
                     "the block, or of the cluster for another block's. Hint: __syncthreads() "
                     "behind init_barrier()",
                     name_of(state), text_of(state.maker)));
  }
  if (block != this->block() && !state.is_published) {
    fail(Fault::kRace, place,
         fmt::format("uses another block's {}, which has not been shown to it; expected "
                     "publish_barriers() by the thread that made it",
                     name_of(state)));
  }
  return state;
}

void Units::arrive(void* barrier, std::uint32_t announced, SourceLine place) {
  PhaseBarrier& state = find_barrier(barrier, block(), place);
  state.announced += announced;
  if (state.announced - state.come > kMostBytes) {
    fail(Fault::kBarrier, place,
         fmt::format("announces {} bytes at the {}, expected at most {} on their way. Hint: it "
                     "counts bytes, not elements",
                     announced, name_of(state), kMostBytes));
  }
  count_arrival(state, place);
}

void Units::arrive_at(void* barrier, unsigned rank, SourceLine place) {
  use();
  expect_running(rank, "arrives at a barrier", place);
  if (engine_.is_checked_ && rank != block()) {
    visits_.push_back(
        {.block = rank, .event = order_.now(warp()), .thread = engine_.running_, .place = place});
  }
  count_arrival(find_barrier(barrier, rank, place), place);
}

void Units::count_arrival(PhaseBarrier& barrier, SourceLine place) {
  if (barrier.missing == 0) {
    fail(Fault::kBarrier, place,
         fmt::format("arrives at the {} once more, whose phase {} has {}; expected {} arrivals a "
                     "phase. Hint: who arrives for the next phase must have waited for this one",
                     name_of(barrier), barrier.phase, barrier.to_text(), barrier.arrivals));
  }
  order_.tell(warp(), barrier.arriving);
  --barrier.missing;
  complete_if_complete(barrier, place);
}

void Units::complete_if_complete(PhaseBarrier& barrier, SourceLine place) {
  if (barrier.missing == 0 && barrier.come > barrier.announced) {
    fail(Fault::kBarrier, place,
         fmt::format("the {} has {} in its phase {}: more bytes than were announced; expected as "
                     "many. Hint: arrive_and_expect() counts the whole boxes, also where they lie "
                     "outside of the tensor",
                     name_of(barrier), barrier.to_text(), barrier.phase));
  }
  if (!barrier.is_complete()) {
    return;
  }
  for (const BoxInFlight& box : flights_) {
    if (box.barrier == &barrier) {
      fail(Fault::kBarrier, place,
           fmt::format("phase {} of the {} completes with {}, while the box of {}:{} ({} bytes) is "
                       "still on its way to it; expected all boxes' bytes announced. Hint: "
                       "announce the bytes of all boxes of the phase at once",
                       barrier.phase, name_of(barrier), barrier.to_text(), box.place.file,
                       box.place.line, box.map.box_bytes()));
    }
  }
  barrier.complete();
  wake_those_who_can();
}

void Units::wait_for_phase(void* barrier, std::uint32_t parity, SourceLine place) {
  PhaseBarrier& state = find_barrier(barrier, block(), place);
  if (parity > 1) {
    fail(Fault::kBarrier, place,
         fmt::format("waits for a phase of parity {}, expected 0 or 1. Hint: the round modulo 2",
                     parity));
  }
  rest({.phase = &state, .parity = parity, .place = place});
  order_.learn(warp(), state.completed);
}

void Units::synchronise_cluster(SourceLine place) {
  use();
  cluster_.expected = engine_.thread_count_;
  ++cluster_.come;
  order_.tell(warp(), cluster_.arriving);
  const std::uint32_t before = cluster_.openings;
  if (cluster_.open_if_complete()) {
    wake_those_who_can();
  }
  wait_until_open(cluster_, before, place);
}

std::pair<GatheringBarrier*, std::uint32_t> Units::come(unsigned name, std::uint32_t threads,
                                                        SourceLine place) {
  use();
  if (name >= blocks_[block()].named.size() || threads == 0 || threads % 32 != 0) {
    fail(Fault::kBarrier, place,
         fmt::format("comes to barrier {} for {} threads, expected 0 to 15 and a multiple of 32",
                     name, threads));
  }
  GatheringBarrier& barrier = blocks_[block()].named[name];
  if (barrier.come == 0) {
    barrier.expected = threads;
    barrier.place = place;
  }
  if (barrier.expected != threads) {
    fail(Fault::kBarrier, place,
         fmt::format("comes to barrier {} for {} threads, but the first one ({}:{}) for {}; "
                     "expected equal numbers",
                     name, threads, barrier.place.file, barrier.place.line, barrier.expected));
  }
  barrier.come += 32;
  order_.tell(warp(), barrier.arriving);
  const std::uint32_t before = barrier.openings;
  if (barrier.open_if_complete()) {
    wake_those_who_can();
  }
  return {&barrier, before};
}

void Units::wait_until_open(GatheringBarrier& barrier, std::uint32_t before, SourceLine place) {
  rest({.gathering = &barrier, .openings = before, .place = place});
  order_.learn(warp(), barrier.opened);
}

}  // namespace ultra::simt::emulator
