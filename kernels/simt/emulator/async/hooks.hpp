#pragma once
/// @file
/// What kernels for Hopper ask of the emulator: barriers that count, TMA, wgmma, clusters. Where an
/// instruction is of a whole warp (".aligned"), its 32 lanes call together.

#include <cstdint>

#include "kernels/simt/config.hpp"
#include "kernels/simt/emulator/async/matrix_descriptor.hpp"
#include "kernels/simt/emulator/async/tensor_map.hpp"
#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/language/vector_types.hpp"
#include "kernels/simt/emulator/launch.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::simt::emulator {

/// @brief Multiprocessors of the emulated GPU. They run one after the other; few of them give blocks
/// that stay more than one tile each.
inline constexpr unsigned kMultiprocessors = 4;

/// @brief As run(), with the blocks of a cluster, `cluster` neighbours along x, running together.
/// @throws SimtError, and what the kernel throws.
void run_in_clusters(const Config& config, const Task& task, Executor executor, unsigned cluster);

/// @brief An address in the running block's dynamic shared memory, as instructions take it: its offset.
[[nodiscard]] std::uint32_t shared_address(const void* shared);

/// @brief The running block's rank in its cluster.
[[nodiscard]] unsigned rank_in_cluster();

/// @brief mbarrier.init.
void init_barrier(void* barrier, std::uint32_t arrivals, SourceLine place);

/// @brief fence.mbarrier_init and fence.proxy.async: of the barriers that the running thread has made.
void publish_barriers(SourceLine place);

/// @brief fence.proxy.async: shows TMA and the tensor cores what threads have written.
void show_to_engines(SourceLine place);

/// @brief mbarrier.arrive, after mbarrier.expect_tx where `announced` is not 0.
void arrive(void* barrier, std::uint32_t announced, SourceLine place);

/// @brief mbarrier.arrive at the same place of block `rank` of the cluster.
void arrive_at(void* barrier, unsigned rank, SourceLine place);

/// @brief mbarrier.try_wait.parity, until it says yes.
void wait_for_phase(void* barrier, std::uint32_t parity, SourceLine place);

/// @brief barrier.cluster.arrive and .wait.
void synchronise_cluster(SourceLine place);

/// @brief Whether a thread that comes to a named barrier waits there.
enum class AtBarrier : std::uint8_t {
  /// @brief bar.sync.
  kWait,
  /// @brief bar.arrive.
  kGoOn,
};

/// @brief bar.sync or bar.arrive of barrier `name`, which opens for `threads` threads.
void gather(unsigned name, std::uint32_t threads, AtBarrier what, SourceLine place);

/// @brief Which way registers go.
enum class Registers : std::uint8_t {
  /// @brief setmaxnreg.dec.
  kGive,
  /// @brief setmaxnreg.inc.
  kTake,
};

/// @brief setmaxnreg: each thread of the warp has `count` from here on.
void set_registers(Registers way, std::uint32_t count, SourceLine place);

/// @brief A box that TMA moves.
struct BoxMove {
  /// @brief Its place in the running block's shared memory.
  void* shared;
  /// @brief The tensor.
  const TensorMap* map;
  /// @brief Its place in the tensor.
  BoxPosition position;
  /// @brief Where its bytes count, in the running block; null for a store.
  void* barrier;
  /// @brief The blocks of the cluster that get it, one bit each; 0 for the running one.
  std::uint32_t blocks;
  /// @brief The line.
  SourceLine place;
};

/// @brief cp.async.bulk.tensor from global to shared memory.
void fetch_box(const BoxMove& box);

/// @brief cp.async.bulk.tensor from shared to global memory.
void store_box(const BoxMove& box);

/// @brief cp.async.bulk.commit_group.
void commit_boxes();

/// @brief cp.async.bulk.wait_group.read: all groups of the running thread but the `pending` latest.
void wait_for_boxes(std::uint32_t pending, SourceLine place);

/// @brief What wgmma multiplies.
enum class Element : std::uint8_t {
  /// @brief 16 elements along the depth.
  kBf16,
  /// @brief As many of half.
  kF16,
  /// @brief 32 elements along the depth, as many bytes.
  kE4m3,
  /// @brief The same; a's are e5m2.
  kE5m2ByE4m3,
};

/// @brief One lane's part in wgmma.mma_async m64nNk16 of bf16 or half, or m64nNk32 of fp8, with sums in float.
struct Product {
  /// @brief The lane's N / 2 sums.
  float* sums;
  /// @brief N.
  std::uint32_t columns;
  /// @brief The lane's four registers of a; null where a is in shared memory.
  const unsigned* left;
  /// @brief a's descriptor, where it is in shared memory.
  std::uint64_t a;
  /// @brief b's descriptor.
  std::uint64_t b;
  /// @brief How a lies in shared memory.
  Major a_major;
  /// @brief How b lies.
  Major b_major;
  /// @brief Whether the product is added to the sums, or replaces them.
  bool adds;
  /// @brief Of the factors; those of a byte lie by rows, in shared memory.
  Element element = Element::kBf16;
};

/// @brief wgmma.fence.
void begin_products(SourceLine place);

/// @brief wgmma.mma_async.
void multiply_async(const Product& product, SourceLine place);

/// @brief wgmma.commit_group.
void commit_products(SourceLine place);

/// @brief wgmma.wait_group: all groups of the warp but the `pending` latest.
void wait_for_products(std::uint32_t pending, SourceLine place);

/// @brief The instruction trap.
/// @throws SimtError
[[noreturn]] void stop_kernel(SourceLine place);

/// @brief stmatrix: hands the elements of four 8 x 8 matrices of 16-bit elements to the lanes that store their
/// rows: register i of lane l has elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix i, and
/// lane l gets row l % 8 of matrix l / 8. All lanes of the warp call it.
[[nodiscard]] uint4 exchange_matrices(const unsigned (&registers)[4], SourceLine place);

}  // namespace ultra::simt::emulator
