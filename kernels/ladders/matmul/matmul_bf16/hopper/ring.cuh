#pragma once
/// @file
/// The ring of stages between the warpgroup that fetches and those that multiply: rungs 9 to 12.
///
/// Stage s is full when its boxes have arrived: one arrival, the fetcher's, which announces their bytes.
/// It is empty when every multiplying warp has arrived: a warp's wait for its products says nothing
/// about other warps. Fetcher and multipliers go through the stages in the same order, each with a
/// RingPosition of its own, so their parities agree: round n of a stage is phase n of both its barriers.
/// The multipliers wait for phase n of are_full; the fetcher waits for phase n - 1 of are_empty, which
/// for n = 0 has the parity 1 of a barrier nobody has used, and does not block.

#include "kernels/hopper/wgmma.cuh"
#include "kernels/ladders/matmul/matmul_bf16/units.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

using namespace hopper;

/// @brief Shared memory: stages of a's [rows, 64] and b's [columns, 64], and their barriers.
template <int rows, int columns, int stages>
struct Ring {
  /// @brief How many stages.
  static constexpr int kStages = stages;
  /// @brief Bytes that fill a stage.
  static constexpr unsigned kBytes = (rows + columns) * kRowUnits * sizeof(uint4);
  /// @brief a's tiles.
  uint4 a[stages][rows * kRowUnits];
  /// @brief b's tiles.
  uint4 b[stages][columns * kRowUnits];
  /// @brief One per stage: its boxes are there.
  Barrier are_full[stages];
  /// @brief One per stage: it may be fetched into.
  Barrier are_empty[stages];

  /// @brief Makes the barriers; `warps` multiply, in all blocks that read what this block fetches. One
  /// thread calls it, and a barrier of the block or the cluster follows.
  __device__ __forceinline__ void init(unsigned warps) {
    for (int stage = 0; stage < stages; ++stage) {
      init_barrier(are_full[stage], 1);
      init_barrier(are_empty[stage], warps);
    }
    publish_barriers();
  }
};

/// @brief Fetches the tiles at (row, column) of c over the whole depth. One thread calls it.
template <typename RingType, int stages>
__device__ __forceinline__ void fetch_into(RingType& ring, RingPosition<stages>& position,
                                           const TensorMap& a_map, const TensorMap& b_map, int row,
                                           int column, int depth) {
  constexpr int kStep = kRowUnits * kUnit;
  for (int k = 0; k < depth; k += kStep) {
    const int stage = position.stage;
    wait_for(ring.are_empty[stage], position.parity ^ 1U);
    arrive_and_expect(ring.are_full[stage], RingType::kBytes);
    fetch_box(ring.a[stage], a_map, row, k, ring.are_full[stage]);
    fetch_box(ring.b[stage], b_map, column, k, ring.are_full[stage]);
    position.advance();
  }
}

/// @brief Multiplies a warpgroup's rows over the whole depth. One group of products stays in flight: a
/// stage is released when the products of the next one have been issued. All threads of the warpgroup
/// call it; at its end, sums are complete.
/// @param multiply       begins to add the products of a stage, its number, to sums, as one group.
/// @param release_stage  called by every thread with the number of a stage that its warp has read.
template <typename RingType, int stages, int parts, int count, typename Multiply, typename Release>
__device__ __forceinline__ void multiply_stages(RingType& ring, RingPosition<stages>& position,
                                                float (&sums)[parts][count], int depth,
                                                const Multiply& multiply,
                                                const Release& release_stage) {
  constexpr int kStep = kRowUnits * kUnit;
  const auto multiply_stage = [&] {
    const int stage = position.stage;
    wait_for(ring.are_full[stage], position.parity);
    multiply(stage);
    position.advance();
    return stage;
  };
  hold_in_place(sums);
  int before = multiply_stage();  // the stage whose products may still be in flight
  for (int k = kStep; k < depth; k += kStep) {
    const int stage = multiply_stage();
    wait_for_products<1>();  // all but this stage's
    release_stage(before);
    before = stage;
  }
  wait_for_products<0>();
  hold_in_place(sums);
  release_stage(before);
}

/// @brief The same for `parts` x 64 rows that begin at `first_row` of each stage.
template <typename RingType, int stages, int parts, int count, typename Release>
__device__ __forceinline__ void multiply_from(RingType& ring, RingPosition<stages>& position,
                                              float (&sums)[parts][count], int first_row, int depth,
                                              const Release& release_stage) {
  multiply_stages(
      ring, position, sums, depth,
      [&](int stage) {
        multiply_tiles_async(sums, ring.a[stage] + first_row * kRowUnits, ring.b[stage]);
      },
      release_stage);
}

}  // namespace
}  // namespace ultra::kernels::matmul_bf16
