// The life of a launch: blocks one after the other, threads in turns.

#include "kernels/simt/emulator/engine.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/simt/emulator/language/vector_types.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kWarpThreads = 32;

uint3 index_in(const Extents& extents, std::size_t number) {
  return {.x = static_cast<unsigned>(number % extents.x),
          .y = static_cast<unsigned>(number / extents.x % extents.y),
          .z = static_cast<unsigned>(number / extents.x / extents.y)};
}

uint3 to_uint3(const Extents& extents) { return {.x = extents.x, .y = extents.y, .z = extents.z}; }

LaneMask lowest_lanes(std::size_t count) {
  return count >= kWarpThreads ? kWholeWarp : (LaneMask{1} << count) - 1;
}

}  // namespace

Engine& Engine::of_this_thread() {
  thread_local Engine engine;
  return engine;
}

Engine::Engine() = default;

Engine::~Engine() {
  for (const auto& fiber : fibers_) {
    unmap_stack(fiber->stack());
  }
}

void Engine::run(const Config& config, const Task& task, Executor executor, unsigned cluster) {
  check_config(config);
  if (is_running_) {
    throw SimtError(Fault::kLaunch, "launch of " + std::string(config.name) +
                                        " from inside a kernel, expected from the host. "
                                        "Hint: return from the kernel, then launch");
  }
  task_ = task;
  is_checked_ = executor == Executor::kChecked;
  start_launch(config, cluster);
  start_order(config);

  is_running_ = true;
  run_grid();
  is_running_ = false;
  end_order(config);
  buffers_.clear();
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  if (config.queue.report != nullptr) {
    config.queue.report->add({.kernel = config.name, .grid = config.grid, .block = config.block},
                             counters_.sites());
  }
}

void Engine::start_launch(const Config& config, unsigned cluster) {
  config_ = &config;
  block_threads_ = config.block.count();
  thread_count_ = block_threads_ * cluster;
  next_block_ = 0;
  rank_ = 0;
  threads_.resize(thread_count_);
  copies_.resize(thread_count_);
  warps_.resize((thread_count_ + kWarpThreads - 1) / kWarpThreads);
  blocks_.assign(cluster, Block{});
  buffers_ = all_buffers();
  recent_buffer_ = nullptr;
  counters_.start(warps_.size());
  while (shared_.size() < cluster) {
    shared_.push_back(std::make_unique<SharedMemory>());
  }
  for (const auto& memory : shared_) {
    memory->start_launch(config.shared_bytes, task_.kernel);
  }
  blockDim = to_uint3(config.block);
  gridDim = to_uint3(config.grid);
}

// Only trivial objects live in this frame: a stack overflow jumps into it.
void Engine::run_grid() {
  trap_.engine = this;
  trap_.is_overflow = [](void* engine, std::uintptr_t address) {
    const auto& self = *static_cast<const Engine*>(engine);
    const Fiber* const fiber = self.threads_[self.running_].fiber;
    return fiber != nullptr && fiber->stack().guard_contains(address);
  };
  if (sigsetjmp(trap_.environment, 1) == 0) {
    arm_overflow_trap(&trap_);
    while (!error_ && next_block_ < config_->grid.count()) {
      run_cluster();
    }
  } else {
    on_stack_overflow();
  }
  arm_overflow_trap(nullptr);
  cancel();
}

// The fiber cannot go on: its frames are forgotten.
void Engine::on_stack_overflow() {
  main_.came_back_by_jump();
  Fiber* const broken = threads_[running_].fiber;
  try {
    fail(Fault::kStackOverflow, {.file = nullptr, .line = 0},
         "its local variables do not fit the emulator's stack of 128 KiB, expected less. Hint: "
         "large local arrays "
         "spill to slow memory on a GPU, and recursion has no end here; make the arrays smaller");
  } catch (const SimtError&) {
    error_ = std::current_exception();
  }
  threads_[running_].fiber = nullptr;
  unmap_stack(broken->stack());
  std::erase_if(fibers_, [broken](const auto& fiber) { return fiber.get() == broken; });
}

void Engine::start_cluster() {
  for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
    const Moment before = blocks_[rank].now;
    blocks_[rank] = Block{.index = index_in(config_->grid, next_block_++),
                          .now = {.block = before.block + 1, .interval = before.interval + 1}};
    shared_[rank]->start_block();
  }
  blockIdx = blocks_.front().index;
  exited_ = 0;
  idle_turns_ = 0;
  unwritten_ = nullptr;
  std::fill(threads_.begin(), threads_.end(), Thread{});
  for (CopyQueue& queue : copies_) {
    queue.copies.clear();
    queue.groups = 0;
  }
  for (std::size_t index = 0; index < warps_.size(); ++index) {
    const LaneMask lanes = lowest_lanes(thread_count_ - index * kWarpThreads);
    warps_[index] = Warp{.existing = lanes, .ready = lanes};
  }
  units_.start();
}

void Engine::run_cluster() {
  start_cluster();
  running_ = thread_count_ - 1;  // so that thread 0 is next
  try {
    do {
      give_turn(main_, Turn::kEverybody);
    } while (!error_ && exited_ != thread_count_ && land_until_somebody_runs());
    if (!error_) {
      fail_if_unwritten();
      if (exited_ != thread_count_) {
        diagnose_stall();
      }
      units_.expect_rest();
    }
  } catch (const SimtError&) {
    error_ = std::current_exception();
  }
}

// Nobody can run: what is on its way arrives, until it wakes somebody.
bool Engine::land_until_somebody_runs() {
  while (units_.land_box()) {
    if (next_ready(Turn::kEverybody) >= 0) {
      return true;
    }
  }
  return false;
}

// Unwinds the threads that have begun and not ended, so that what lives on their stacks is destroyed.
void Engine::cancel() {
  is_cancelling_ = true;
  for (std::size_t thread = 0; thread < thread_count_; ++thread) {
    if (threads_[thread].fiber != nullptr) {
      make_running(thread);
      Fiber::switch_to(main_, *threads_[thread].fiber);
    }
  }
  is_cancelling_ = false;
  counters_.drop();
}

void Engine::fiber_main() { of_this_thread().run_threads(); }

// A fiber runs one thread after the other; between them it is idle.
void Engine::run_threads() {
  for (;;) {
    Fiber& own = *threads_[running_].fiber;
    try {
      task_.call(task_.arguments);
      end_thread();
    } catch (const Cancelled&) {
      // Somebody else's fault stopped this thread.
    } catch (...) {
      error_ = std::current_exception();
    }
    threads_[running_].fiber = nullptr;
    idle_.push_back(&own);
    if (error_) {
      Fiber::switch_to(own, main_);
    } else {
      give_turn(own, Turn::kWarpFirst);
    }
  }
}

void Engine::end_thread() {
  Warp& own = warp();
  const LaneMask bit = lane_bit();
  own.ready &= ~bit;
  own.exited |= bit;
  ++exited_;
  ++block().exited;
  for (LaneMask rest = own.meeting; rest != 0; rest &= rest - 1) {
    const std::size_t thread =
        running_ / kWarpThreads * kWarpThreads + static_cast<std::size_t>(std::countr_zero(rest));
    if ((threads_[thread].meeting.mask & bit) != 0) {
      diagnose_meeting(thread);
    }
  }
  idle_turns_ = 0;
  flush_if_nobody_runs(running_ / kWarpThreads);
}

// All that the lanes of a warp did between two points where they are all at rest are requests.
void Engine::flush_if_nobody_runs(std::size_t index) {
  const Warp& resting = warps_[index];
  const LaneMask at_rest = resting.exited | resting.at_barrier | resting.resting;
  if (is_checked_ && at_rest == resting.existing) {
    counters_.flush(index);
  }
}

// The thread to run after the running one; -1 if nobody can.
int Engine::next_ready(Turn turn) const {
  const std::size_t first_warp = running_ / kWarpThreads;
  const auto first_lane = static_cast<int>((running_ + 1) % kWarpThreads);
  const LaneMask later = first_lane == 0 ? 0 : kWholeWarp << first_lane;
  const auto thread_of = [](std::size_t warp, LaneMask lanes) {
    return static_cast<int>(warp * kWarpThreads) + std::countr_zero(lanes);
  };
  const LaneMask ready = warps_[first_warp].ready;
  if ((ready & later) != 0) {
    return thread_of(first_warp, ready & later);
  }
  if (turn == Turn::kWarpFirst && ready != 0) {
    return thread_of(first_warp, ready);
  }
  for (std::size_t step = 1; step <= warps_.size(); ++step) {
    const std::size_t warp = (first_warp + step) % warps_.size();
    if (warps_[warp].ready != 0) {
      return thread_of(warp, warps_[warp].ready);
    }
  }
  return -1;
}

void Engine::make_running(std::size_t thread) {
  running_ = thread;
  if (blocks_.size() == 1) {
    threadIdx = index_in(config_->block, thread);
    return;
  }
  rank_ = thread / block_threads_;
  threadIdx = index_in(config_->block, thread % block_threads_);
  blockIdx = blocks_[rank_].index;
}

Fiber& Engine::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(map_stack(fibers_.size()), &Engine::fiber_main));
    return *fibers_.back();
  }
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void Engine::give_turn(Fiber& from, Turn turn) {
  const int next = next_ready(turn);
  if (next < 0) {
    Fiber::switch_to(from, main_);
    return;
  }
  const auto thread = static_cast<std::size_t>(next);
  make_running(thread);
  if (threads_[thread].fiber == nullptr) {
    threads_[thread].fiber = &idle_fiber();
  }
  if (threads_[thread].fiber != &from) {
    Fiber::switch_to(from, *threads_[thread].fiber);
  }
}

void Engine::suspend(Turn turn) {
  give_turn(*threads_[running_].fiber, turn);
  if (is_cancelling_) {
    throw Cancelled{};
  }
}

// The running thread waits until the units wake it.
void Engine::rest(SourceLine place) {
  threads_[running_].place = place;
  warp().resting |= lane_bit();
  warp().ready &= ~lane_bit();
  flush_if_nobody_runs(running_ / kWarpThreads);
  idle_turns_ = 0;
  suspend(Turn::kWarpFirst);
}

void Engine::wake(std::size_t thread) {
  const LaneMask bit = LaneMask{1} << thread % kWarpThreads;
  Warp& own = warps_[thread / kWarpThreads];
  own.resting &= ~bit;
  own.ready |= bit;
  idle_turns_ = 0;
}

void run_in_clusters(const Config& config, const Task& task, Executor executor, unsigned cluster) {
  constexpr unsigned kMostBlocks = 8;
  if (cluster == 0 || cluster > kMostBlocks || config.grid.x % cluster != 0) {
    throw SimtError(Fault::kLaunch,
                    "launch of " + std::string(config.name) + ": clusters of " +
                        std::to_string(cluster) + " blocks in a grid of " +
                        std::to_string(config.grid.x) +
                        " along x, expected clusters of 1 to 8 blocks that fill the grid. Hint: "
                        "round the grid up to whole clusters");
  }
  if (cluster > 1 && config.block.count() % kWarpThreads != 0) {
    throw SimtError(Fault::kLaunch, "launch of " + std::string(config.name) + ": blocks of " +
                                        std::to_string(config.block.count()) +
                                        " threads in clusters, expected whole warps");
  }
  Engine::of_this_thread().run(config, task, executor, cluster);
}

void run(const Config& config, const Task& task, Executor executor) {
  Engine::of_this_thread().run(config, task, executor);
}

}  // namespace ultra::simt::emulator
