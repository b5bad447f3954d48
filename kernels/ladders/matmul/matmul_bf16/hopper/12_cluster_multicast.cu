// Rung 12: two blocks below each other fetch b once for both, and c leaves through TMA. Checked
//          on the emulator; not run on a GPU yet.
//
// Idea:   a cluster of two blocks shares a column of tiles. Each fetches its own rows of a, and
//         half of b's box, which arrives in both (multicast). A stage is empty when the multiplying
//         warps of both blocks have said so to both. c is rounded into shared memory (stmatrix) and
//         stored by the copy engine, while the next tile is multiplied.
// Moves:  per block and step, 16 KiB of a and 16 of b instead of 32: 128 operations per byte
//         instead of 85. Stores of whole lines, and no register waits for them.
// Limit:  the power of the card: an H100 lowers its clock under full tensor cores. What is left is
//         the order of tiles, and the padding of shapes that are no multiple of 256 x 256.

#include <algorithm>

#include "kernels/hopper/staged_sums.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"
#include "kernels/ladders/matmul/matmul_bf16/hopper/ring.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

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

struct Shared {
  Ring<BM, BN, kStages> ring;
  alignas(kBoxAlignment) StagedBoxes<kBoxes> c[kConsumers];
};

// As fetch_into(), but half of b, for both blocks. The bytes announced are those that arrive here.
__device__ __forceinline__ void fetch_shared(Shared& shared, RingPosition<kStages>& position,
                                             const TensorMap& a_map, const TensorMap& b_map,
                                             int row, int column, int depth, int rank) {
  constexpr int kHalf = BN / kBlocks;
  constexpr unsigned short kBoth = (1U << kBlocks) - 1;
  auto& ring = shared.ring;
  for (int k = 0; k < depth; k += BK) {
    const int stage = position.stage;
    wait_for(ring.are_empty[stage], position.parity ^ 1U);
    arrive_and_expect(ring.are_full[stage], ring.kBytes);
    fetch_box(ring.a[stage], a_map, row, k, ring.are_full[stage]);
    fetch_box_for_all(ring.b[stage] + rank * kHalf * kRowUnits, b_map, column + rank * kHalf, k,
                      ring.are_full[stage], kBoth);
    position.advance();
  }
}

// Says to both blocks that this warp has read a stage.
__device__ __forceinline__ void release_in_cluster(Barrier& is_empty) {
  const unsigned lane = threadIdx.x % 32;
  if (lane < kBlocks) {
    arrive_at(is_empty, lane);
  }
}

// Stores a warpgroup's sums: 64 rows from (row, column) of c on.
__device__ __forceinline__ void store_through_tma(StagedBoxes<kBoxes>& boxes,
                                                  const TensorMap& c_map, int row, int column,
                                                  const float (&sums)[BN / 2]) {
  store_through_boxes<kBoxes>(boxes, sums, threadIdx.x / kWarpgroup, [&] {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      store_box(c_map, row, column + box * BK, boxes[box]);
    }
  });
}

__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    cluster_multicast_kernel(const __grid_constant__ TensorMap a_map,
                             const __grid_constant__ TensorMap b_map,
                             const __grid_constant__ TensorMap c_map, int rows, int columns,
                             int depth) {
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
  RingPosition<kStages> position;  // goes on from tile to tile
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    give_registers<kFetcherRegisters>();
    if (threadIdx.x == 0) {
      for (int tile = first_tile; tile < row_tiles * column_tiles; tile += clusters) {
        const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
        fetch_shared(shared, position, a_map, b_map, (row * kBlocks + rank) * BM, column * BN,
                     depth, rank);
      }
    }
  } else {
    take_registers<kMultiplierRegisters>();
    const int consumer = warpgroup - 1;
    for (int tile = first_tile; tile < row_tiles * column_tiles; tile += clusters) {
      const auto [row, column] = tile_at(tile, row_tiles, column_tiles, kBand);
      float sums[1][BN / 2] = {};
      multiply_from(shared.ring, position, sums, consumer * kRows, depth,
                    [&](int stage) { release_in_cluster(shared.ring.are_empty[stage]); });
      store_through_tma(shared.c[consumer], c_map, (row * kBlocks + rank) * BM + consumer * kRows,
                        column * BN, sums[0]);
    }
    if (threadIdx.x % kWarpgroup == 0) {
      wait_until_boxes_are_read();  // shared memory stays until TMA has read it
    }
  }
  synchronise_cluster();  // without it, the other block arrives at barriers of a block that has ended
}

}  // namespace

template <>
void cluster_multicast<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  const unsigned tiles = ceil_div(problem.columns, BN) * ceil_div(problem.rows, kBlocks * BM);
  launch_clusters<kBlocks>(
      cluster_multicast_kernel,
      {.name = "cluster_multicast",
       .grid = {.x = std::min(tiles, count_multiprocessors() / kBlocks) * kBlocks},
       .block = {.x = kThreads},
       .shared_bytes = bytes_of<Shared>(),
       .queue = queue},
      describe_matrix(problem.a, problem.rows, problem.depth, BM),
      describe_matrix(problem.b, problem.columns, problem.depth, BN / kBlocks),
      describe_matrix(problem.c, problem.rows, problem.columns, kRows), problem.rows,
      problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16
