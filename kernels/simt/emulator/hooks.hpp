#pragma once
/// @file
/// What the functions that kernels call ask of the emulator; implemented by the engine.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ultra::simt::emulator {

/// @brief A line of a kernel.
struct SourceLine {
  /// @brief Source file.
  const char* file;
  /// @brief Line in it.
  int line;
};

/// @brief What an access does, whichever memory it goes to.
enum class Operation : std::uint8_t {
  /// @brief Reads.
  kLoad,
  /// @brief Writes.
  kStore,
  /// @brief Reads and writes with nobody between.
  kAtomic,
};

/// @brief Which memory an accessor is made for.
enum class MemorySpace : std::uint8_t {
  /// @brief Buffers.
  kGlobal,
  /// @brief __shared__ variables and dynamic shared memory.
  kShared,
  /// @brief Either: the address says which.
  kAny,
};

/// @brief One lane's access, before it is made.
struct Access {
  /// @brief What it does.
  Operation operation;
  /// @brief The memory that its accessor is made for.
  MemorySpace space;
  /// @brief First byte.
  const void* address;
  /// @brief Bytes.
  std::size_t size;
  /// @brief What the address must be a multiple of.
  std::size_t alignment;
  /// @brief What will be written; null for a load, and for a store whose value comes later.
  const void* value;
  /// @brief The line.
  SourceLine place;
};

/// @brief Checks and counts an access of the running lane.
/// @throws SimtError when the access is wrong.
void observe(const Access& access);

/// @brief Says that the running lane has made an atomic access, and whether the value is another one
/// now: a lane that changes nothing again and again waits, and lets the others run.
/// @throws SimtError when nobody else can run.
void after_atomic(const void* address, bool changed, SourceLine place);

/// @brief Counts a branch of the running lane.
void observe_branch(bool taken, SourceLine place);

/// @brief A copy from global to shared memory that goes on behind its thread's back.
struct AsyncCopy {
  /// @brief Destination.
  void* shared;
  /// @brief Source.
  const void* global;
  /// @brief Bytes that are written.
  std::size_t size;
  /// @brief Bytes that are read; the rest become zeros.
  std::size_t source_size;
  /// @brief The line.
  SourceLine place;
};

/// @brief Checks, counts and begins a copy of the running lane.
/// @throws SimtError when an access is wrong.
void begin_copy(const AsyncCopy& copy);

/// @brief Makes a group of the running lane's copies since its last group.
void commit_copies();

/// @brief Lands the copies of all groups of the running lane but the `pending` latest.
/// @throws SimtError when another thread has touched what they write.
void land_copies(std::uint32_t pending);

/// @brief Waits until every thread of the block is here.
/// @throws SimtError when another thread waits at another barrier.
void wait_at_barrier(SourceLine place);

/// @brief Says that the running thread goes on when the kernel before has ended.
void note_wait_for_kernel_before();

/// @brief Lanes of a warp, one bit each.
using LaneMask = std::uint32_t;

/// @brief The lanes of a whole warp.
inline constexpr LaneMask kWholeWarp = 0xffffffffU;

/// @brief What a warp operation does once all its lanes are there: `deposits` holds what each lane
/// brought, null for lanes that are not in `mask`.
using Resolver = void (*)(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief One lane's part in a warp operation.
struct Meeting {
  /// @brief The lanes that take part, as the kernel said.
  LaneMask mask;
  /// @brief The operation; the same for all lanes that meet.
  Resolver resolve;
  /// @brief What this lane brings and where its result goes.
  void* deposit;
  /// @brief The operation's name, for messages.
  const char* name;
  /// @brief The line.
  SourceLine place;
};

/// @brief Waits until all lanes of the mask are here; the last one resolves the operation for all.
/// @throws SimtError when the lanes cannot meet.
void meet(const Meeting& meeting);

/// @brief Marks what the lanes of `mask` did before as done before what they do next.
void order_lanes(LaneMask mask);

/// @brief Refuses a shuffle that reads from a lane that takes no part.
[[noreturn]] void refuse_source(int lane, int source, LaneMask mask);

/// @brief The running thread's lane in its warp.
[[nodiscard]] int lane_index();

/// @brief Dynamic shared memory of the running block.
[[nodiscard]] std::byte* dynamic_shared_memory();

}  // namespace ultra::simt::emulator
