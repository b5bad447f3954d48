#pragma once
/// @file
/// What rung 2's warps share: a block's keys, the queries that it goes through, its shared memory and
/// its products.
///
/// A block has 128 keys of a head of keys, 64 of each of two multiplying warpgroups. It goes through
/// tiles of 64 queries that see them. Scores lie transposed: rows are keys.

#include "kernels/hopper/staged_sums.cuh"
#include "kernels/ladders/attention/attention_backward_bf16/warp_gradients.cuh"
#include "kernels/ladders/attention/attention_bf16/hopper/warpgroup_attention.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

using namespace hopper;
using attention::Shape;
using attention_bf16::fetch_tile;
using attention_bf16::flat;
using attention_bf16::kDepth;
using attention_bf16::keys_of_query;

constexpr int kMultipliers = 2;  // warpgroups
constexpr int kMultiplyingWarps = kMultipliers * kWarpgroup / 32;
constexpr int kOwnKeys = hopper::kRows;  // of a warpgroup
constexpr int kKeys = kMultipliers * kOwnKeys;
constexpr int kBoxColumns = attention_bf16::kBoxColumns;
constexpr int kStages = 2;  // of queries
constexpr int kWriters = 64;
constexpr int kQuads = 8;  // of a thread's 32 sums of d_q

constexpr int kQueries = kOneKernelQueries;

template <int kHeadDim>
constexpr int kBoxes = kHeadDim / kBoxColumns;

// Scores or their gradients [64 keys, 64 queries], as wgmma leaves them, and rounded.
using TileScores = float[1][kQueries / 8][4];
using TileWeights = unsigned[1][kQueries / kDepth][4];
using StagedWeights = uint4[kOwnKeys * kRowUnits];

// Phases: round n of a stage is phase n of its barriers, and step n of the block is phase n of d_q's,
//         as in attention_bf16/hopper/warpgroup_attention.cuh. A stage is full when its q, its d_o and
//         its statistics are there. Weights and d_s have two stages that no barrier guards: between a
//         store and the products of two steps before that read the same stage lies the step between,
//         whose synchronisation all have passed after those products.
template <int kHeadDim>
struct Shared {
  alignas(kBoxAlignment) uint4 k[kBoxes<kHeadDim>][kKeys * kRowUnits];
  alignas(kBoxAlignment) uint4 v[kBoxes<kHeadDim>][kKeys * kRowUnits];
  alignas(kBoxAlignment) uint4 q[kStages][kBoxes<kHeadDim>][kQueries * kRowUnits];
  alignas(kBoxAlignment) uint4 d_o[kStages][kBoxes<kHeadDim>][kQueries * kRowUnits];
  // Rounded, keys below each other; of each warpgroup.
  alignas(kBoxAlignment) StagedWeights weights[2][kMultipliers];
  alignas(kBoxAlignment) StagedWeights d_s[2][kMultipliers];
  float4 d_q[kMultipliers][kQuads][kWarpgroup];  // as registers have them
  float lse[kStages][kQueries];                  // times log2(e)
  float delta[kStages][kQueries];
  Barrier keys_are_full;
  Barrier are_full[kStages];
  Barrier are_empty[kStages];
  Barrier d_q_is_full;
  Barrier d_q_is_empty;
  unsigned number;  // of the block, in the order of their beginning

  // One thread calls it; publish_barriers() and a barrier of the block follow.
  __device__ __forceinline__ void init() {
    init_barrier(keys_are_full, 2);
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(are_full[stage], 3);
      init_barrier(are_empty[stage], kMultiplyingWarps);
    }
    init_barrier(d_q_is_full, kMultiplyingWarps);
    init_barrier(d_q_is_empty, kWriters / 32);
  }
};

// A tile of queries of one head.
struct QueryTile {
  int head;
  int tile;  // of the head
  int first_query;
};

// A block's keys, and the tiles of queries that it goes through.
struct KeyBlock {
  // The blocks of a head begin behind each other, the last keys first: that is the order in which
  // their parts of d_q are added.
  __device__ __forceinline__ KeyBlock(const Shape& problem_shape, unsigned number)
      : shape(problem_shape),
        blocks((shape.seq_len + kKeys - 1) / kKeys),
        kv_head(static_cast<int>(number) / blocks),
        block(blocks - 1 - static_cast<int>(number) % blocks),
        first_key(block * kKeys),
        tiles((shape.seq_len + kQueries - 1) / kQueries),
        first_tile(shape.causal ? first_key / kQueries : 0) {}

  [[nodiscard]] __device__ __forceinline__ int steps() const {
    return shape.group * (tiles - first_tile);
  }
  [[nodiscard]] __device__ __forceinline__ QueryTile at(int step) const {
    const int of_head = tiles - first_tile;
    const int tile = first_tile + step % of_head;
    return {kv_head * shape.group + step / of_head, tile, tile * kQueries};
  }
  // How many blocks add to a tile's d_q before this one.
  [[nodiscard]] __device__ __forceinline__ unsigned turn_at(int tile) const {
    const int last_key = tile * kQueries + kQueries - 1;
    const int last_block = shape.causal && last_key < shape.seq_len ? last_key / kKeys : blocks - 1;
    return last_block - block;
  }

  const Shape& shape;
  int blocks;  // of a head
  int kv_head;
  int block;  // of the head
  int first_key;
  int tiles;  // of a head's queries
  int first_tile;
};

// Begins scores = keys queries^T, as one group: 64 keys from `first_row` on.
template <typename T, int kTiles, int boxes, int kKeyUnits, int kQueryUnits>
__device__ __forceinline__ void begin_scores(float (&scores)[1][kTiles][4],
                                             const uint4 (&keys)[boxes][kKeyUnits], int first_row,
                                             const uint4 (&queries)[boxes][kQueryUnits]) {
  begin_products();
#pragma unroll
  for (int box = 0; box < boxes; ++box) {
    const unsigned long long left = describe(&keys[box][first_row * kRowUnits]);
    const unsigned long long right = describe(queries[box]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_async<T>(flat(scores)[0], left + 2 * step, right + 2 * step, box + step > 0);
    }
  }
  commit_products();
}

// Begins sums += weights rows, as one group: a row of queries or of their gradients for each column
// of the weights.
template <typename T, int kColumnTiles, int boxes, int kUnits>
__device__ __forceinline__ void begin_sums(float (&sums)[1][kColumnTiles][4],
                                           const StagedWeights& weights,
                                           const uint4 (&rows)[boxes][kUnits]) {
  begin_products();
  const unsigned long long left = describe(weights);
  const unsigned long long right = describe_by_depth(rows[0], sizeof rows[0]);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    multiply_rows_async<T>(flat(sums)[0], left + 2 * step, right + step * kNextDepth);
  }
  commit_products();
}

// Begins a warpgroup's d_q [64, 64] = transpose(d_s) keys, as one group. Of rows of 128, it has one half
// of the columns, over all keys; of rows of 64, all of them, over its own keys.
template <typename T, int boxes>
__device__ __forceinline__ void begin_d_q(float (&d_q)[1][kQuads][4],
                                          const StagedWeights (&d_s)[kMultipliers],
                                          const uint4 (&k)[boxes][kKeys * kRowUnits],
                                          int warpgroup) {
  constexpr bool kHasAllKeys = boxes > 1;
  const uint4* const columns = k[kHasAllKeys ? warpgroup : 0];
  begin_products();
#pragma unroll
  for (int i = 0; i < (kHasAllKeys ? kMultipliers : 1); ++i) {
    const int part = kHasAllKeys ? i : warpgroup;
    const unsigned long long left = describe_by_depth(d_s[part], sizeof d_s[part]);
    const unsigned long long right =
        describe_by_depth(columns + part * kOwnKeys * kRowUnits, sizeof k[0]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_by_depth_async<T>(flat(d_q)[0], left + step * kNextDepth, right + step * kNextDepth,
                                 i + step > 0);
    }
  }
  commit_products();
}

}  // namespace
}  // namespace ultra::kernels::attention_backward_bf16
