#pragma once
/// @file
/// What works behind the threads' backs on an H100: barriers that count, the copy engine (TMA), the
/// tensor cores as wgmma uses them, and the registers that warpgroups hand to each other. A functional
/// model: what arrives, arrives as late as it may, and what is used before is found.
///
/// A box lands when no thread can go on without it; products are added when their warp waits for them.
/// In the checked emulator every access of shared memory, by threads and by engines, is ordered by
/// what its warp has learnt at barriers (clock.hpp): too early is an error whatever the order of turns.
///
/// Blind spots: the lanes of a warp count as one, and accesses of less than 4 bytes are not ordered among
/// themselves; an arrival is taken to show all that its warp has written, to other blocks, too, and a
/// fence of a warp's lane to be all lanes' fence; one order of arrival is tried; what the compiler moves
/// (reads of sums before a wait) is not seen; products of bf16 and half with sums in float, boxes as wide as their
/// swizzle and descriptors without a base offset are all there are; no reductions by TMA, no loads from
/// other blocks' memory; `__shared__` variables are refused in clusters; the traffic of engines in shared
/// memory is not counted; registers are those of a block that has a multiprocessor for itself.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/simt/emulator/async/access_log.hpp"
#include "kernels/simt/emulator/async/barriers.hpp"
#include "kernels/simt/emulator/async/boxes.hpp"
#include "kernels/simt/emulator/async/clock.hpp"
#include "kernels/simt/emulator/async/hooks.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::simt::emulator {

class Engine;
struct SharedArray;

/// @brief A warp's registers that products are added to.
struct Accumulator {
  /// @brief Where each lane has them.
  std::array<float*, 32> registers{};
  /// @brief Registers of a lane.
  std::size_t count = 0;
  /// @brief What they hold, or last held when the tensor cores gave them back: [lane][register].
  std::vector<float> values{};
  /// @brief Products that are not finished.
  int in_flight = 0;
};

/// @brief A warp's quarter of a product: 16 of its 64 rows.
struct ProductInFlight {
  /// @brief What lane 0 has asked for.
  Product product;
  /// @brief Its sums.
  Accumulator* sums;
  /// @brief Where each lane has its part of a, if in registers.
  std::array<const unsigned*, 32> left_registers;
  /// @brief What was there.
  std::array<std::array<unsigned, 4>, 32> left;
  /// @brief The number of its group, from 0.
  std::uint32_t group;
  /// @brief The line.
  SourceLine place;
};

/// @brief What a warp multiplies.
struct WarpProducts {
  /// @brief Stands for what its products read: number g + 1 for group g.
  Slot slot = 0;
  /// @brief Groups made so far.
  std::uint32_t groups = 0;
  /// @brief Fences so far.
  std::uint32_t fences = 0;
  /// @brief Those at its last wait.
  std::uint32_t fences_at_wait = 0;
  /// @brief Products that are not finished, oldest first.
  std::deque<ProductInFlight> in_flight{};
  /// @brief By the address of lane 0's first register.
  std::map<const float*, Accumulator> sums{};
  /// @brief Its products so far.
  std::size_t issued = 0;
  /// @brief Of the first warp of a warpgroup: what the warpgroup's products are.
  std::vector<Product> issued_by_group{};
};

/// @brief The units that the blocks of one cluster use, which run together on one engine.
class Units {
 public:
  /// @brief Units for an engine's threads.
  explicit Units(Engine& engine) : engine_(engine) {}

  /// @brief Whether the running blocks have used them: only then they keep books.
  [[nodiscard]] bool are_used() const { return are_used_; }
  /// @brief Forgets everything before the blocks of a cluster begin.
  void start();
  /// @brief Lands the box that has been on its way longest.
  /// @return whether there was one.
  /// @throws SimtError
  bool land_box();
  /// @brief Checks that nothing is on its way when all threads have ended.
  /// @throws SimtError
  void expect_rest();
  /// @brief Orders the threads of the running block: __syncthreads().
  void synchronise_block();
  /// @brief Notes a thread's own access of dynamic shared memory.
  /// @throws SimtError when nothing orders it with an earlier one.
  void observe(const Access& access, std::size_t offset);
  /// @brief Says why nobody can go on, if somebody waits here.
  /// @throws SimtError
  void diagnose_stall() const;
  /// @brief What a thread waits for, as a clause; empty if it does not.
  [[nodiscard]] std::string waits_for(std::size_t thread) const;
  /// @brief "which the box of ... has not brought yet", if one is on its way to these bytes.
  [[nodiscard]] std::string box_on_its_way(std::size_t offset, std::size_t size) const;

  /// @brief The hook of the same name.
  void init_barrier(void* barrier, std::uint32_t arrivals, SourceLine place);
  /// @brief The hook of the same name.
  void publish_barriers();
  /// @brief The hook of the same name.
  void show_to_engines();
  /// @brief The hook of the same name.
  void arrive(void* barrier, std::uint32_t announced, SourceLine place);
  /// @brief The hook of the same name.
  void arrive_at(void* barrier, unsigned rank, SourceLine place);
  /// @brief The hook of the same name.
  void wait_for_phase(void* barrier, std::uint32_t parity, SourceLine place);
  /// @brief The hook of the same name.
  void synchronise_cluster(SourceLine place);
  /// @brief A warp's part in gather(); its lanes have met.
  /// @return the barrier, and how often it had opened before.
  std::pair<GatheringBarrier*, std::uint32_t> come(unsigned name, std::uint32_t threads,
                                                   SourceLine place);
  /// @brief Waits until a barrier has opened more than `before` times.
  void wait_until_open(GatheringBarrier& barrier, std::uint32_t before, SourceLine place);
  /// @brief A warp's part in set_registers(); its lanes have met.
  void give_registers(std::uint32_t count, SourceLine place);
  /// @brief A lane's part: waits until the block has registers for the warp, and takes them once.
  void take_registers(std::uint32_t count, SourceLine place);
  /// @brief The hook of the same name.
  void fetch_box(const BoxMove& box);
  /// @brief The hook of the same name.
  void store_box(const BoxMove& box);
  /// @brief The hook of the same name.
  void commit_boxes();
  /// @brief The hook of the same name.
  void wait_for_boxes(std::uint32_t pending, SourceLine place);
  /// @brief A warp's part in the hook of the same name; its lanes have met.
  void begin_products();
  /// @brief The same.
  void multiply_async(std::span<const Product* const, 32> lanes, SourceLine place);
  /// @brief The same.
  void commit_products();
  /// @brief The same.
  void wait_for_products(std::uint32_t pending, SourceLine place);

 private:
  // What a thread rests for.
  struct Rest {
    PhaseBarrier* phase = nullptr;
    std::uint32_t parity = 0;
    GatheringBarrier* gathering = nullptr;
    std::uint32_t openings = 0;
    std::uint32_t registers = 0;  // that its warp shall have
    SourceLine place{};

    [[nodiscard]] bool is_one() const {
      return phase != nullptr || gathering != nullptr || registers != 0;
    }
  };
  // What one block does to another one's barrier.
  struct Visit {
    std::size_t block;  // the other one
    Event event;
    std::size_t thread;
    SourceLine place;
  };
  // What one block has.
  struct Block {
    AccessLog log{};
    std::array<GatheringBarrier, 16> named{};
    std::int64_t free_registers = 0;
  };

  // units.cpp
  void use();
  [[nodiscard]] bool is_over(const Rest& rest, std::size_t thread) const;
  void rest(const Rest& rest);
  void wake_those_who_can();
  [[nodiscard]] std::size_t warp() const;
  [[nodiscard]] std::size_t block() const;
  [[nodiscard]] std::size_t warps_of_block() const;
  [[nodiscard]] std::byte* memory_of(std::size_t block) const;
  [[nodiscard]] std::uintptr_t offset_of(const void* shared) const;
  [[noreturn]] void fail(Fault fault, SourceLine place, const std::string& what) const;
  void touch(std::size_t block, std::size_t offset, std::size_t size, const LoggedAccess& access);
  [[noreturn]] void fail_disorder(const LoggedAccess& access, const Disorder& disorder) const;
  [[nodiscard]] std::string text_of(std::size_t thread) const;

  // barrier_operations.cpp
  PhaseBarrier& find_barrier(const void* barrier, std::size_t block, SourceLine place);
  void count_arrival(PhaseBarrier& barrier, SourceLine place);
  void complete_if_complete(PhaseBarrier& barrier, SourceLine place);
  [[nodiscard]] std::string name_of(const PhaseBarrier& barrier) const;

  // boxes.cpp
  void begin_flight(const BoxMove& box, std::size_t block);
  void check_box(const BoxMove& box, Operation operation);
  void count_box(const BoxMove& box, Operation operation);
  void expect_no_late_visits() const;
  void expect_running(std::size_t block, const char* what, SourceLine place) const;
  void land(const BoxInFlight& box);
  void write_out(const StoredBox& box);

  // products.cpp
  [[nodiscard]] Accumulator& accumulator_of(WarpProducts& own,
                                            std::span<const Product* const, 32> lanes,
                                            SourceLine place);
  void expect_same_in_warpgroup(const Product& product, SourceLine place);
  void read_matrix(std::uint64_t descriptor, Major major, std::uint32_t first, std::uint32_t rows,
                   SourceLine place);
  void add(const ProductInFlight& product);
  [[nodiscard]] std::vector<std::uint16_t> gather_matrix(std::uint64_t descriptor, Major major,
                                                         std::uint32_t first,
                                                         std::uint32_t rows) const;
  void expect_untouched(const ProductInFlight& product, SourceLine place) const;
  void give_back(Accumulator& sums, SourceLine place) const;

  Engine& engine_;
  bool are_used_ = false;
  Order order_;
  std::vector<Block> blocks_;
  std::vector<Rest> rests_;  // one per thread
  std::map<std::uintptr_t, PhaseBarrier> phases_;
  GatheringBarrier cluster_;
  std::vector<Visit> visits_;
  std::vector<std::uint32_t> registers_;  // of a thread of each warp
  std::deque<BoxInFlight> flights_;
  std::map<std::size_t, StoreQueue> stores_;  // by thread
  std::vector<WarpProducts> products_;        // one per warp
};

}  // namespace ultra::simt::emulator
