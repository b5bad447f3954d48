// What the units share: threads that rest, the books of who touched what, registers.

#include "kernels/simt/emulator/async/units.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kWarpThreads = 32;
constexpr std::size_t kRegistersOfMultiprocessor = 65536;
constexpr std::size_t kMostRegisters = 256;
constexpr std::size_t kRegisterStep = 8;

const char* text_of(Actor actor) {
  switch (actor) {
    case Actor::kCopyEngine:
      return "TMA";
    case Actor::kTensorCores:
      return "wgmma";
    case Actor::kThread:
      break;
  }
  return "the thread";
}

const char* on_behalf(Actor actor) {
  switch (actor) {
    case Actor::kCopyEngine:
      return "TMA of ";
    case Actor::kTensorCores:
      return "wgmma of ";
    case Actor::kThread:
      break;
  }
  return "";
}

const char* verb_of(Operation operation) {
  return operation == Operation::kLoad ? "reads" : "writes";
}

}  // namespace

void Units::start() {
  are_used_ = false;
  phases_.clear();
  flights_.clear();
  stores_.clear();
  rests_.assign(engine_.thread_count_, Rest{});
}

// The books begin with the first use: blocks that use nothing of this pay nothing for it.
void Units::use() {
  if (are_used_) {
    return;
  }
  are_used_ = true;
  const std::size_t warps = engine_.warps_.size();
  order_.start(warps);
  blocks_.resize(engine_.blocks_.size());
  for (Block& block : blocks_) {
    block.named = {};
    block.free_registers = 0;
    if (engine_.is_checked_) {
      block.log.start(engine_.config_->shared_bytes);
    }
  }
  cluster_ = {};
  visits_.clear();
  const std::size_t share =
      kRegistersOfMultiprocessor / engine_.block_threads_ / kRegisterStep * kRegisterStep;
  registers_.assign(warps, static_cast<std::uint32_t>(std::min(share, kMostRegisters)));
  products_.assign(warps, WarpProducts{});
  for (WarpProducts& products : products_) {
    products.slot = order_.new_slot();
  }
}

bool Units::is_over(const Rest& rest, std::size_t thread) const {
  if (rest.phase != nullptr) {
    return rest.phase->has_completed(rest.parity);
  }
  if (rest.gathering != nullptr) {
    return rest.gathering->openings > rest.openings;
  }
  const std::uint32_t own = registers_[thread / kWarpThreads];
  const Block& block = blocks_[thread / engine_.block_threads_];
  return own >= rest.registers ||
         block.free_registers >= std::int64_t{rest.registers - own} * std::int64_t{kWarpThreads};
}

void Units::rest(const Rest& rest) {
  const std::size_t thread = engine_.running_;
  while (!is_over(rest, thread)) {
    rests_[thread] = rest;
    engine_.rest(rest.place);
  }
  rests_[thread] = Rest{};
}

void Units::wake_those_who_can() {
  for (std::size_t thread = 0; thread < rests_.size(); ++thread) {
    if (rests_[thread].is_one() && is_over(rests_[thread], thread)) {
      engine_.wake(thread);
    }
  }
}

std::size_t Units::warp() const { return engine_.running_ / kWarpThreads; }
std::size_t Units::block() const { return engine_.rank_; }
std::size_t Units::warps_of_block() const { return engine_.block_threads_ / kWarpThreads; }
std::byte* Units::memory_of(std::size_t block) const { return engine_.shared_[block]->dynamic(); }

std::uintptr_t Units::offset_of(const void* shared) const {
  return reinterpret_cast<std::uintptr_t>(shared) -
         reinterpret_cast<std::uintptr_t>(memory_of(block()));
}

void Units::fail(Fault fault, SourceLine place, const std::string& what) const {
  engine_.fail(fault, place, what);
}

std::string Units::text_of(std::size_t thread) const {
  std::string text = engine_.thread_text(thread);
  if (engine_.blocks_.size() > 1) {
    text += fmt::format(" of block {} of the cluster", thread / engine_.block_threads_);
  }
  return text;
}

void Units::observe(const Access& access, std::size_t offset) {
  touch(block(), offset, access.size,
        {.event = order_.now(warp()),
         .actor = Actor::kThread,
         .operation = access.operation,
         .thread = engine_.running_,
         .place = access.place});
}

// Of the running thread's block or of another one in its cluster; in the checked emulator.
void Units::touch(std::size_t block, std::size_t offset, std::size_t size,
                  const LoggedAccess& access) {
  AccessLog& log = blocks_[block].log;
  log.open(access);
  const auto disorder = log.touch(offset, size, order_.of(warp()), order_);
  if (disorder) {
    fail_disorder(access, *disorder);
  }
}

void Units::fail_disorder(const LoggedAccess& access, const Disorder& disorder) const {
  const LoggedAccess& earlier = disorder.earlier;
  const std::string both =
      fmt::format("{} {} byte {} of dynamic shared memory, which {}{} {} at {}:{}",
                  emulator::text_of(access.actor), verb_of(access.operation), disorder.offset,
                  on_behalf(earlier.actor), text_of(earlier.thread), verb_of(earlier.operation),
                  earlier.place.file, earlier.place.line);
  if (disorder.lacks_fence) {
    fail(Fault::kRace, access.place,
         both +
             ", with a barrier between them but no fence between threads and engines; expected "
             "fence.proxy.async. Hint: the thread that writes calls show_to_tma() before the "
             "barrier");
  }
  const char* const hint =
      earlier.actor == Actor::kCopyEngine && earlier.operation != Operation::kLoad
          ? "wait for the phase of the barrier at which the box counts (which parity is it?)"
          : "who overwrites must know that the others have finished: wait for products before the "
            "stage is released, and for the release before it is filled";
  fail(Fault::kRace, access.place,
       fmt::format("{}, and nothing orders the two; expected a barrier. Hint: {}", both, hint));
}

void Units::synchronise_block() {
  if (!are_used_) {
    return;
  }
  Clock all;
  const std::size_t first = block() * warps_of_block();
  for (std::size_t warp = first; warp < first + warps_of_block(); ++warp) {
    order_.tell(warp, all);
  }
  for (std::size_t warp = first; warp < first + warps_of_block(); ++warp) {
    order_.learn(warp, all);
  }
}

void Units::give_registers(std::uint32_t count, SourceLine place) {
  use();
  std::uint32_t& own = registers_[warp()];
  if (count > own) {
    fail(
        Fault::kLaunch, place,
        fmt::format("gives registers back until {} are left, but has {}; expected at most as many. "
                    "Hint: {} threads can have {} each at launch; who needs more takes them",
                    count, own, engine_.block_threads_, own));
  }
  blocks_[block()].free_registers += std::int64_t{own - count} * std::int64_t{kWarpThreads};
  own = count;
  wake_those_who_can();
}

void Units::take_registers(std::uint32_t count, SourceLine place) {
  use();
  if (count < registers_[warp()]) {
    fail(Fault::kLaunch, place,
         fmt::format("takes registers until it has {}, but has {} already; expected fewer. Hint: "
                     "a warpgroup gives with setmaxnreg.dec",
                     count, registers_[warp()]));
  }
  rest({.registers = count, .place = place});
  std::uint32_t& own = registers_[warp()];
  blocks_[block()].free_registers -= std::int64_t{count - own} * std::int64_t{kWarpThreads};
  own = count;
}

void Units::expect_rest() {
  if (!are_used_) {
    return;
  }
  if (!flights_.empty()) {
    const BoxInFlight& box = flights_.front();
    engine_.fail_in(box.thread, Fault::kBarrier, box.place,
                    "the block ends while this box is on its way to its shared memory; expected a "
                    "wait. Hint: wait for the barrier at which it counts");
  }
  for (const auto& [thread, queue] : stores_) {
    if (!queue.boxes.empty()) {
      engine_.fail_in(thread, Fault::kBarrier, queue.boxes.front().place,
                      "the block ends before TMA has read this box from its shared memory; "
                      "expected a wait. Hint: commit the boxes, and wait until they are read");
    }
  }
  for (std::size_t warp = 0; warp < products_.size(); ++warp) {
    const WarpProducts& own = products_[warp];
    if (!own.in_flight.empty()) {
      engine_.fail_in(warp * kWarpThreads, Fault::kBarrier, own.in_flight.front().place,
                      "the block ends before this product has been waited for; expected a wait. "
                      "Hint: commit the products, and wait for their group");
    }
    if (own.issued != products_[warp / 4 * 4].issued) {
      engine_.fail_in(warp * kWarpThreads, Fault::kWarpOperation, {.file = nullptr, .line = 0},
                      fmt::format("its warp has taken part in {} products and another one of its "
                                  "warpgroup in {}; expected equal numbers. Hint: all four warps "
                                  "multiply together",
                                  own.issued, products_[warp / 4 * 4].issued));
    }
  }
  expect_no_late_visits();
}

// A block must know of what others do to it before it ends: its shared memory ends with it.
void Units::expect_no_late_visits() const {
  for (const Visit& visit : visits_) {
    bool is_known = false;
    const std::size_t first = visit.block * warps_of_block();
    for (std::size_t warp = first; warp < first + warps_of_block(); ++warp) {
      is_known = is_known || order_.of(warp).knows(visit.event);
    }
    if (!is_known) {
      engine_.fail_in(visit.thread, Fault::kBarrier, visit.place,
                      fmt::format("arrives at a barrier of block {} of its cluster, which may have "
                                  "ended by then; expected that it waits for this. Hint: the "
                                  "blocks of a cluster end together, behind synchronise_cluster()",
                                  visit.block));
    }
  }
}

std::string Units::waits_for(std::size_t thread) const {
  const Rest& rest = rests_[thread];
  if (rest.phase != nullptr) {
    return fmt::format("waits for the phase of parity {} of the {}, whose phase {} has {}",
                       rest.parity, name_of(*rest.phase), rest.phase->phase, rest.phase->to_text());
  }
  if (rest.gathering != nullptr) {
    return fmt::format("waits at a barrier to which {} of {} threads have come",
                       rest.gathering->come, rest.gathering->expected);
  }
  if (rest.registers != 0) {
    return fmt::format("waits for registers until it has {}: its block has {} to give, expected {}",
                       rest.registers, blocks_[thread / engine_.block_threads_].free_registers,
                       (rest.registers - registers_[thread / kWarpThreads]) * kWarpThreads);
  }
  return {};
}

void Units::diagnose_stall() const {
  constexpr std::size_t kMostNamed = 4;
  std::string all;
  std::size_t first = engine_.thread_count_;
  std::vector<std::string> named;
  for (std::size_t thread = 0; thread < engine_.thread_count_; ++thread) {
    const std::string what = waits_for(thread);
    if (what.empty() || std::ranges::find(named, what) != named.end()) {
      continue;
    }
    first = std::min(first, thread);
    named.push_back(what);
    if (named.size() <= kMostNamed) {
      all += fmt::format("{}{} {} (at {}:{})", all.empty() ? "" : "; ", text_of(thread), what,
                         rests_[thread].place.file, rests_[thread].place.line);
    }
  }
  if (first < engine_.thread_count_) {
    engine_.fail_in(first, Fault::kBarrier, rests_[first].place,
                    "no thread can go on: " + all +
                        "; expected arrivals and bytes. Hint: compare the parity with the number "
                        "of the round, the announced bytes with the boxes', and who arrives with "
                        "what init_barrier() was told");
  }
}

}  // namespace ultra::simt::emulator
