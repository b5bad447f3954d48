// Where threads wait for each other: the block's barrier and the operations of warps. And the hooks
// that kernels call.

#include <bit>
#include <cstring>

#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {
namespace {

bool same_place(const SourceLine& left, const SourceLine& right) {
  return left.line == right.line &&
         (left.file == right.file || std::strcmp(left.file, right.file) == 0);
}

}  // namespace

void Engine::wait_at_barrier(SourceLine place) {
  Warp& own = warp();
  Thread& thread = threads_[running_];
  Block& block = this->block();
  thread.place = place;
  if (block.at_barrier == 0) {
    block.first_at_barrier = running_;
  } else if (!same_place(place, threads_[block.first_at_barrier].place)) {
    fail(Fault::kBarrier, place,
         "waits at this barrier, but " + where_is(block.first_at_barrier) +
             "; expected all threads of the block at the same one. Hint: a __syncthreads() inside "
             "an if or a loop must be reached by every thread or by none");
  }
  own.at_barrier |= lane_bit();
  own.ready &= ~lane_bit();
  flush_if_nobody_runs(running_ / 32);
  idle_turns_ = 0;
  if (++block.at_barrier < block_threads_) {
    suspend(Turn::kWarpFirst);
    return;
  }
  fail_if_unwritten();
  block.at_barrier = 0;
  ++block.now.interval;
  units_.synchronise_block();
  const std::size_t first = running_ / block_threads_ * block_threads_ / 32;
  for (std::size_t index = first; index * 32 < (first * 32) + block_threads_; ++index) {
    warps_[index].at_barrier = 0;
    warps_[index].ready = warps_[index].existing;
  }
}

void Engine::meet(const Meeting& meeting) {
  Warp& own = warp();
  const std::size_t first_thread = running_ / 32 * 32;
  const LaneMask lanes = meeting.mask & own.existing;
  Thread& thread = threads_[running_];
  thread.meeting = meeting;
  thread.place = meeting.place;
  if ((lanes & lane_bit()) == 0 || (lanes & own.exited) != 0) {
    diagnose_meeting(running_);
  }
  for (LaneMask rest = own.meeting & lanes; rest != 0; rest &= rest - 1) {
    const Meeting& other =
        threads_[first_thread + static_cast<std::size_t>(std::countr_zero(rest))].meeting;
    if (other.mask != meeting.mask || other.resolve != meeting.resolve) {
      own.meeting |= lane_bit();
      diagnose_meeting(running_);
    }
  }
  own.meeting |= lane_bit();
  own.ready &= ~lane_bit();
  idle_turns_ = 0;
  if ((own.meeting & lanes) != lanes) {
    suspend(Turn::kWarpFirst);
    return;
  }
  std::array<void*, 32> deposits{};
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    deposits[lane] = threads_[first_thread + lane].meeting.deposit;
  }
  meeting.resolve(deposits, lanes);
  own.meeting &= ~lanes;
  own.ready |= lanes;
  if (is_checked_ && (lanes | own.exited) == own.existing) {
    counters_.flush(running_ / 32);
  }
}

void Engine::order_lanes(LaneMask mask) {
  const std::size_t first_thread = running_ / 32 * 32;
  std::uint32_t latest = 0;
  for (LaneMask rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    latest = std::max(latest, threads_[first_thread + lane].warp_epoch);
  }
  for (LaneMask rest = mask; rest != 0; rest &= rest - 1) {
    threads_[first_thread + static_cast<std::size_t>(std::countr_zero(rest))].warp_epoch =
        latest + 1;
  }
}

void observe(const Access& access) { Engine::of_this_thread().observe(access); }

void after_atomic(const void* address, bool changed, SourceLine place) {
  Engine::of_this_thread().after_atomic(address, changed, place);
}

void observe_branch(bool taken, SourceLine place) {
  Engine::of_this_thread().observe_branch(taken, place);
}

void wait_at_barrier(SourceLine place) { Engine::of_this_thread().wait_at_barrier(place); }

void meet(const Meeting& meeting) { Engine::of_this_thread().meet(meeting); }

void order_lanes(LaneMask mask) { Engine::of_this_thread().order_lanes(mask); }

void refuse_source(int lane, int source, LaneMask mask) {
  Engine::of_this_thread().refuse_source(lane, source, mask);
}

int lane_index() { return static_cast<int>(Engine::of_this_thread().lane()); }

std::byte* dynamic_shared_memory() { return Engine::of_this_thread().dynamic_shared_memory(); }

}  // namespace ultra::simt::emulator
