#pragma once
/// @file
/// The kernel of clusters of two blocks, for factors that lie either way: rung 12, and the products of
/// a backward pass.
///
/// A stage's tile of a factor that lies along rows is boxes of 64 rows of the depth x 64 of its
/// own, one after the other, and wgmma transposes it.

#include <algorithm>

#include "kernels/hopper/staged_sums.cuh"
#include "kernels/hopper/wgmma_registers.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/ring.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"

namespace ultra::kernels::matmul_bf16::cluster_tile {
namespace {

using namespace simt;
using namespace hopper;

constexpr int BM = 128;
constexpr int BN = 256;
constexpr int BK = kRowUnits * kUnit;
constexpr int kStages = 3;
constexpr int kBlocks = 2;  // of a cluster
constexpr int kBand = 8;    // rows of clusters' tiles
constexpr int kConsumers = BM / kRows;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kFetcherRegisters = 40;
constexpr int kMultiplierRegisters = 232;
constexpr int kBoxes = BN / BK;  // of c, for one multiplying warpgroup
constexpr int kHalf = BN / kBlocks;

/// @brief Shared memory of a block.
struct Shared {
  /// @brief What is fetched.
  Ring<BM, BN, kStages> ring;
  /// @brief What is stored.
  alignas(kBoxAlignment) StagedBoxes<kBoxes> c[kConsumers];
};

using Position = RingPosition<kStages>;

/// @brief How TMA hears of a factor whose stages have boxes of `rows` rows.
template <Lies lies>
TensorMap describe_factor(const bf16* elements, int rows, int depth, int box_rows) {
  return lies == Lies::kAlongDepth ? describe_matrix(elements, rows, depth, box_rows)
                                   : describe_matrix(elements, depth, rows, BK);
}

// As fetch_into(), but half of b, for both blocks. The bytes announced are those that arrive here.
template <Lies a_lies, Lies b_lies>
__device__ __forceinline__ void fetch_shared(Shared& shared, Position& position,
                                             const TensorMap& a_map, const TensorMap& b_map,
                                             int row, int column, int depth, int rank) {
  constexpr unsigned short kBoth = (1U << kBlocks) - 1;
  auto& ring = shared.ring;
  for (int k = 0; k < depth; k += BK) {
    const int stage = position.stage;
    Barrier& is_full = ring.are_full[stage];
    wait_for(ring.are_empty[stage], position.parity ^ 1U);
    arrive_and_expect(is_full, ring.kBytes);
    if constexpr (a_lies == Lies::kAlongDepth) {
      fetch_box(ring.a[stage], a_map, row, k, is_full);
    } else {
#pragma unroll
      for (int first = 0; first < BM; first += BK) {
        fetch_box(ring.a[stage] + first * kRowUnits, a_map, k, row + first, is_full);
      }
    }
    uint4* const half = ring.b[stage] + rank * kHalf * kRowUnits;
    const int own = column + rank * kHalf;
    if constexpr (b_lies == Lies::kAlongDepth) {
      fetch_box_for_all(half, b_map, own, k, is_full, kBoth);
    } else {
#pragma unroll
      for (int first = 0; first < kHalf; first += BK) {
        fetch_box_for_all(half + first * kRowUnits, b_map, k, own + first, is_full, kBoth);
      }
    }
    position.advance();
  }
}

// Begins sums += the products of a stage, 64 rows from `first_row` on.
template <Lies a_lies, Lies b_lies>
__device__ __forceinline__ void multiply_stage(float (&sums)[BN / 2], const uint4* a,
                                               const uint4* b) {
  constexpr bool kTurnsA = a_lies == Lies::kAlongRows;
  constexpr bool kTurnsB = b_lies == Lies::kAlongRows;
  constexpr unsigned kBoxBytes = BK * kRowUnits * sizeof(uint4);
  constexpr unsigned long long kAlongRow = 2;  // 32 bytes
  const unsigned long long a_tile = kTurnsA ? describe_by_depth(a, kBoxBytes) : describe(a);
  const unsigned long long b_tile = kTurnsB ? describe_by_depth(b, kBoxBytes) : describe(b);
  begin_products();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    multiply_turned_async<kTurnsA, kTurnsB>(sums,
                                            a_tile + (kTurnsA ? kNextDepth : kAlongRow) * step,
                                            b_tile + (kTurnsB ? kNextDepth : kAlongRow) * step);
  }
  commit_products();
}

// Says to both blocks that this warp has read a stage.
__device__ __forceinline__ void release_in_cluster(Barrier& is_empty) {
  const unsigned lane = threadIdx.x % 32;
  if (lane < kBlocks) {
    arrive_at(is_empty, lane);
  }
}

/// @brief Sums that leave rounded to bf16, through TMA.
struct ThroughTma {
  /// @brief Stores a warpgroup's sums: 64 rows from (row, column) of c on.
  __device__ __forceinline__ void operator()(StagedBoxes<kBoxes>& boxes, const TensorMap& c_map,
                                             int row, int column,
                                             const float (&sums)[BN / 2]) const {
    store_through_boxes<kBoxes>(boxes, sums, threadIdx.x / kWarpgroup, [&] {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        store_box(c_map, row, column + box * BK, boxes[box]);
      }
    });
  }
};

/// @brief A block of a cluster computes tile after tile of c.
/// @param store  stores a warpgroup's sums, as ThroughTma does.
template <Lies a_lies, Lies b_lies, typename Store>
__device__ __forceinline__ void compute_tiles(const TensorMap& a_map, const TensorMap& b_map,
                                              const TensorMap& c_map, int rows, int columns,
                                              int depth, const Store& store) {
  auto& shared = aligned_shared<Shared>();
  const int row_tiles = (rows + kBlocks * BM - 1) / (kBlocks * BM);  // of clusters
  const int column_tiles = (columns + BN - 1) / BN;
  const int rank = static_cast<int>(rank_in_cluster());
  const int first_tile = blockIdx.x / kBlocks;
  const int clusters = gridDim.x / kBlocks;
  if (threadIdx.x == 0) {
    shared.ring.init(kBlocks * kConsumers * kWarpgroup / 32);
  }
  synchronise_cluster();  // without it, the other block meets barriers that do not exist yet
  Position position;      // goes on from tile to tile
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    give_registers<kFetcherRegisters>();
    if (threadIdx.x == 0) {
      for (int tile = first_tile; tile < row_tiles * column_tiles; tile += clusters) {
        const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
        fetch_shared<a_lies, b_lies>(shared, position, a_map, b_map, (row * kBlocks + rank) * BM,
                                     column * BN, depth, rank);
      }
    }
  } else {
    take_registers<kMultiplierRegisters>();
    const int consumer = warpgroup - 1;
    for (int tile = first_tile; tile < row_tiles * column_tiles; tile += clusters) {
      const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
      float sums[1][BN / 2] = {};
      multiply_stages(
          shared.ring, position, sums, depth,
          [&](int stage) {
            // 64 rows of a are as many bytes either way.
            multiply_stage<a_lies, b_lies>(
                sums[0], shared.ring.a[stage] + consumer * kRows * kRowUnits, shared.ring.b[stage]);
          },
          [&](int stage) { release_in_cluster(shared.ring.are_empty[stage]); });
      store(shared.c[consumer], c_map, (row * kBlocks + rank) * BM + consumer * kRows, column * BN,
            sums[0]);
    }
    if (threadIdx.x % kWarpgroup == 0) {
      wait_until_boxes_are_read();  // shared memory stays until TMA has read it
    }
  }
  synchronise_cluster();  // without it, the other block arrives at barriers of a block that has ended
}

/// @brief How compute_tiles() is launched for c [rows, columns].
inline Config launch_of(int rows, int columns, const Queue& queue, const char* name) {
  const unsigned tiles = ceil_div(columns, BN) * ceil_div(rows, kBlocks * BM);
  return {.name = name,
          .grid = {.x = std::min(tiles, count_multiprocessors(queue) / kBlocks) * kBlocks},
          .block = {.x = kThreads},
          .shared_bytes = bytes_of<Shared>(),
          .queue = queue};
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16::cluster_tile
