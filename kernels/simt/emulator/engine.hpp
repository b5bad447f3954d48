#pragma once
/// @file
/// Runs the threads of a block, or of the blocks of a cluster, as fibers that take turns, and stops at
/// the first fault.
///
/// A thread runs until it waits or ends; then the next thread of its warp runs. When nobody can run
/// and nothing is on its way to anybody, but some have not ended, they wait for each other in vain, and
/// the engine says how.

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/emulator/async/units.hpp"
#include "kernels/simt/emulator/counters.hpp"
#include "kernels/simt/emulator/fibers/fiber.hpp"
#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/language/vector_types.hpp"
#include "kernels/simt/emulator/launch.hpp"
#include "kernels/simt/emulator/memory/async_copies.hpp"
#include "kernels/simt/emulator/memory/registry.hpp"
#include "kernels/simt/emulator/memory/shared_memory.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::simt::emulator {

/// @brief The emulator of one thread of the operating system; launches on several such threads run
/// side by side.
class Engine {
 public:
  /// @brief The engine of the calling thread.
  static Engine& of_this_thread();
  /// @brief An engine with no stacks yet.
  Engine();
  /// @brief Gives the stacks back.
  ~Engine();
  /// @brief Fibers know its address.
  Engine(const Engine&) = delete;
  /// @brief Fibers know its address.
  Engine& operator=(const Engine&) = delete;

  /// @brief run() of the emulator; the blocks of a cluster, neighbours along x, run together.
  void run(const Config& config, const Task& task, Executor executor, unsigned cluster = 1);

  /// @brief The hook of the same name.
  void observe(const Access& access);
  /// @brief The hook of the same name.
  void after_atomic(const void* address, bool changed, SourceLine place);
  /// @brief The hook of the same name.
  void observe_branch(bool taken, SourceLine place);
  /// @brief The hook of the same name.
  void begin_copy(const AsyncCopy& copy);
  /// @brief The hook of the same name.
  void commit_copies();
  /// @brief The hook of the same name.
  void land_copies(std::uint32_t pending);
  /// @brief The hook of the same name.
  void wait_at_barrier(SourceLine place);
  /// @brief The hook of the same name.
  void note_wait_for_kernel_before();
  /// @brief The hook of the same name.
  void meet(const Meeting& meeting);
  /// @brief The hook of the same name.
  void order_lanes(LaneMask mask);
  /// @brief The hook of the same name.
  [[noreturn]] void refuse_source(int lane, int source, LaneMask mask);
  /// @brief The running thread's lane.
  [[nodiscard]] std::size_t lane() const { return running_ % 32; }
  /// @brief Dynamic shared memory of the running block.
  [[nodiscard]] std::byte* dynamic_shared_memory() const { return shared_[rank_]->dynamic(); }
  /// @brief What works behind the threads' backs.
  [[nodiscard]] Units& units() { return units_; }
  /// @brief The running block's rank in its cluster.
  [[nodiscard]] unsigned rank_in_cluster() const { return static_cast<unsigned>(rank_); }
  /// @brief Stops with what is wrong with the running thread.
  /// @throws SimtError
  [[noreturn]] void fail(Fault fault, SourceLine place, const std::string& what) const;

 private:
  friend class Units;  // which lets threads wait, and says who is at fault

  struct Thread {
    Fiber* fiber = nullptr;  // null before its start and after its end
    Meeting meeting{};       // what it waits for, if it meets other lanes
    SourceLine place{};      // where it waits
    std::uint32_t warp_epoch = 1;
    // The access that it repeats, if it waits for another thread's change.
    const void* repeated_address = nullptr;
    int repeated_line = 0;
    std::uint32_t repetitions = 0;
    // Whether it has waited for the kernel before, of a launch that may begin beside that.
    bool has_waited = false;
  };
  struct Warp {
    LaneMask existing = 0;
    LaneMask ready = 0;
    LaneMask meeting = 0;
    LaneMask at_barrier = 0;
    LaneMask resting = 0;  // until the units wake them
    LaneMask exited = 0;
  };
  struct Block {
    uint3 index{};
    Moment now{};
    std::size_t exited = 0;
    std::size_t at_barrier = 0;
    std::size_t first_at_barrier = 0;
  };
  enum class Turn { kWarpFirst, kEverybody };
  struct Cancelled {};

  // Scheduling (engine.cpp).
  void start_launch(const Config& config, unsigned cluster);
  void run_grid();
  void run_cluster();
  void start_cluster();
  [[nodiscard]] bool land_until_somebody_runs();
  void rest(SourceLine place);
  void wake(std::size_t thread);
  void cancel();
  void on_stack_overflow();
  static void fiber_main();
  [[noreturn]] void run_threads();
  void end_thread();
  [[nodiscard]] int next_ready(Turn turn) const;
  void give_turn(Fiber& from, Turn turn);
  void suspend(Turn turn);
  void make_running(std::size_t thread);
  Fiber& idle_fiber();
  [[nodiscard]] Warp& warp() { return warps_[running_ / 32]; }
  [[nodiscard]] Block& block() { return blocks_[rank_]; }
  [[nodiscard]] SharedMemory& shared() const { return *shared_[rank_]; }
  [[nodiscard]] LaneMask lane_bit() const { return LaneMask{1} << lane(); }
  void flush_if_nobody_runs(std::size_t warp);

  // Checks of one access (observer.cpp).
  void check_global(const Access& access, std::uintptr_t address);
  void observe_shared(const Access& access, std::uintptr_t address, SharedArray& array);
  void observe_ordered(const Access& access, SharedArray& array, std::size_t offset);
  [[nodiscard]] BufferRecord* find_buffer(std::uintptr_t address, std::size_t size);
  void count(const Access& access, bool is_shared);
  void watch_repetition(const void* address, SourceLine place);
  [[nodiscard]] ShadowMark mark_of(std::uint32_t site) const;

  // Launches that begin beside the kernel before (dependent_launches.cpp).
  void start_order(const Config& config);
  void end_order(const Config& config);
  void note_order(const Access& access, BufferRecord* buffer);

  // Copies in flight (async_copies.cpp).
  void land(const CopyInFlight& copy);
  [[nodiscard]] static Access store_of(const CopyInFlight& copy);
  [[nodiscard]] const CopyInFlight* find_copy(std::uintptr_t address, std::size_t size) const;

  // Messages (diagnosis.cpp). Each throws.
  [[noreturn]] void fail_in(std::size_t thread, Fault fault, SourceLine place,
                            const std::string& what) const;
  [[noreturn]] void fail_outside(const Access& access, std::uintptr_t address);
  void note_unwritten(const Access& access, const SharedArray& array, std::size_t offset);
  void fail_if_unwritten() const;
  [[noreturn]] void fail_unwritten(const Access& access, const SharedArray& array,
                                   std::size_t offset) const;
  [[noreturn]] void fail_race(const Access& access, const SharedArray& array, std::size_t offset,
                              const Race& race);
  void diagnose_stall();
  void diagnose_meeting(std::size_t thread);
  [[nodiscard]] std::string thread_text(std::size_t thread) const;
  [[nodiscard]] std::string where_is(std::size_t thread) const;

  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;

  const Config* config_ = nullptr;
  Task task_{};
  bool is_checked_ = false;
  bool is_running_ = false;
  bool is_cancelling_ = false;
  std::exception_ptr error_;
  // The first read of shared memory that nobody has written: a fault, but which one is known later.
  std::exception_ptr unwritten_;
  int accesses_since_unwritten_ = 0;
  OverflowTrap trap_{};

  std::size_t thread_count_ = 0;   // of the blocks that run together
  std::size_t block_threads_ = 0;  // of one of them
  std::size_t next_block_ = 0;     // of the grid
  std::vector<Block> blocks_;
  std::size_t rank_ = 0;  // of the running block in its cluster
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<CopyQueue> copies_;  // one per thread
  std::size_t running_ = 0;
  std::size_t exited_ = 0;
  std::uint32_t idle_turns_ = 0;
  Units units_{*this};

  Counters counters_;
  std::vector<std::unique_ptr<SharedMemory>> shared_;  // one per block that runs
  // The buffers that launches before this one may still write; and this one's among them.
  std::vector<std::shared_ptr<BufferRecord>> written_before_;
  std::vector<std::shared_ptr<BufferRecord>> written_now_;
  const BufferRecord* recently_written_ = nullptr;
  bool has_anyone_waited_ = false;
  std::vector<std::shared_ptr<BufferRecord>> buffers_;
  BufferRecord* recent_buffer_ = nullptr;
};

}  // namespace ultra::simt::emulator
