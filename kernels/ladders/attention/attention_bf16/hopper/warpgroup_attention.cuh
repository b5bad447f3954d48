#pragma once
/// @file
/// Attention by warpgroups, for rungs 4 to 6: who fetches, who multiplies, and in which order.
/// Whether a warpgroup waits for its turn to multiply, how many tiles of queries a block has and how
/// o leaves it is the rungs'.

#include "kernels/hopper/prepare.cuh"
#include "kernels/hopper/wgmma_registers.cuh"
#include "kernels/ladders/attention/attention_bf16/warp_attention.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using namespace hopper;

constexpr int kTileKeys = 128;
constexpr int kBoxColumns = 64;  // of TMA
constexpr int kDepth = 16;       // of one product

// Warpgroups that multiply. Three where their sums are short: more powers of 2 beside the products.
template <int kHeadDim>
constexpr int kConsumers = kHeadDim <= 64 ? 3 : 2;
template <int kHeadDim>
constexpr int kMultiplyingWarps = kConsumers<kHeadDim>* kWarpgroup / 32;
template <int kHeadDim>
constexpr int kQueryRows = kConsumers<kHeadDim>* kRows;

// Stages of keys, and of values. A tile of short rows is used up sooner than it arrives.
template <int kHeadDim>
constexpr int kStages = kHeadDim <= 64 ? 4 : 2;

// Registers that a thread keeps, to fetch and to multiply: at launch 128 for each of 512 threads,
// or 168 for each of 384; then 32 + 3 x 160 = 4 x 128, and 24 + 2 x 240 = 3 x 168.
template <int kHeadDim>
constexpr int kFetcherRegisters = kConsumers<kHeadDim> == 3 ? 32 : 24;
template <int kHeadDim>
constexpr int kMultiplierRegisters = kConsumers<kHeadDim> == 3 ? 160 : 240;

// Keys or values: stages of tiles, each of which is boxes of 64 columns behind each other.
//
// Phases: round n of a stage is phase n of both its barriers. Multipliers wait for phase n of
// are_full; the fetcher waits for phase n - 1 of are_empty, which for n = 0 counts as completed
// (barrier.cuh).
// Fetcher and multipliers go through the tiles in the same order. Keys and values have a fetcher
// each, so that none waits for a stage of one ring while it owes a tile of the other.
template <int kBoxes, int stages>
struct Ring {
  alignas(kBoxAlignment) uint4 tiles[stages][kBoxes][kTileKeys * kRowUnits];
  Barrier are_full[stages];
  Barrier are_empty[stages];

  // `warps` multiply. One thread calls it; publish_barriers() and a barrier of the block follow.
  __device__ __forceinline__ void init(unsigned warps) {
    for (int stage = 0; stage < stages; ++stage) {
      init_barrier(are_full[stage], 1);
      init_barrier(are_empty[stage], warps);
    }
  }
};

template <int kHeadDim>
struct Shared {
  static constexpr int kBoxes = kHeadDim / kBoxColumns;
  alignas(kBoxAlignment) uint4 q[kBoxes][kQueryRows<kHeadDim> * kRowUnits];
  Barrier q_is_full;
  Ring<kBoxes, kStages<kHeadDim>> k;
  Ring<kBoxes, kStages<kHeadDim>> v;

  // One thread calls it; publish_barriers() and a barrier of the block follow.
  __device__ __forceinline__ void init() {
    init_barrier(q_is_full, 1);
    k.init(kMultiplyingWarps<kHeadDim>);
    v.init(kMultiplyingWarps<kHeadDim>);
  }
};

// Head number `number` over all sequences, of which each has `heads`.
__device__ __forceinline__ HeadAt head_at(int number, int heads) {
  return {number / heads, number % heads};
}

// Fetches all boxes of a tile, which count at `is_full`. What lies outside of the head arrives as
// zeros.
template <int kBoxes, int kUnits>
__device__ __forceinline__ void fetch_tile(uint4 (&tile)[kBoxes][kUnits], const TensorMap& map,
                                           const HeadAt& head, int row, Barrier& is_full) {
  arrive_and_expect(is_full, sizeof tile);
#pragma unroll
  for (int box = 0; box < kBoxes; ++box) {
    fetch_box(tile[box], map, head, row, box * kBoxColumns, is_full);
  }
}

// Fetches all tiles of keys, or of values. One thread calls it.
template <int kBoxes, int stages>
__device__ __forceinline__ void fetch_tiles(Ring<kBoxes, stages>& ring,
                                            RingPosition<stages>& position, const TensorMap& map,
                                            const HeadAt& head, int keys) {
  for (int key = 0; key < keys; key += kTileKeys) {
    const int stage = position.stage;
    wait_for(ring.are_empty[stage], position.parity ^ 1U);
    fetch_tile(ring.tiles[stage], map, head, key, ring.are_full[stage]);
    position.advance();
  }
}

// Sums of wgmma lie, in each warp, as mma.sync's of one tile of 16 rows.
using TileScores = float[1][kTileKeys / 8][4];
using TileWeights = unsigned[1][kTileKeys / kDepth][4];

// The same sums as wgmma's wrappers take them.
template <int kTiles>
__device__ __forceinline__ auto flat(float (&sums)[1][kTiles][4]) -> float (&)[1][kTiles * 4] {
  return reinterpret_cast<float(&)[1][kTiles * 4]>(sums);
}

// Begins scores = queries keys^T, as one group. Along a row, 16 elements are 32 bytes.
template <typename T, int kBoxes, int kQueryUnits, int kKeyUnits>
__device__ __forceinline__ void begin_scores(TileScores& scores,
                                             const uint4 (&q)[kBoxes][kQueryUnits], int first_row,
                                             const uint4 (&k)[kBoxes][kKeyUnits]) {
  begin_products();
#pragma unroll
  for (int box = 0; box < kBoxes; ++box) {
    const unsigned long long queries = describe(&q[box][first_row * kRowUnits]);
    const unsigned long long keys = describe(k[box]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_async<T>(flat(scores)[0], queries + 2 * step, keys + 2 * step, box + step > 0);
    }
  }
  commit_products();
}

// Begins output += weights values, as one group.
template <typename T, int kColumnTiles, int kBoxes, int kUnits>
__device__ __forceinline__ void begin_output(float (&output)[1][kColumnTiles][4],
                                             const TileWeights& weights,
                                             const uint4 (&v)[kBoxes][kUnits]) {
  begin_products();
  const unsigned long long values = describe_by_depth(v[0], sizeof v[0]);
#pragma unroll
  for (int step = 0; step < kTileKeys / kDepth; ++step) {
    multiply_async<T>(flat(output)[0], weights[0][step], values + step * kNextDepth);
  }
  commit_products();
}

// Where a multiplying warpgroup is: the stages of its next keys and values, and the phase in which
// its next queries arrive.
template <int kHeadDim>
struct Progress {
  RingPosition<kStages<kHeadDim>> k;
  RingPosition<kStages<kHeadDim>> v;
  unsigned q_parity = 0;
};

// A multiplying warpgroup's work: all tiles of keys and values for its 64 queries. It begins its
// products of a tile between turns.wait() and turns.pass(). It calls end.release_queries() when it
// has read its queries for the last time, and end.store() with what it has computed.
template <int kHeadDim, typename T, typename Turns, typename End>
__device__ __forceinline__ void attend(const ProblemOf<T>& problem, const BlockSite& site,
                                       Shared<kHeadDim>& shared, Progress<kHeadDim>& progress,
                                       int warpgroup, const Turns& turns, const End& end) {
  const Shape& shape = problem.shape;
  const float factor = shape.scale * kLog2E;
  const int first_row = warpgroup * kRows;
  auto& k = shared.k;
  auto& v = shared.v;
  auto& k_at = progress.k;
  auto& v_at = progress.v;
  TileScores scores;
  TileWeights weights;
  float output[1][kHeadDim / 8][4] = {};
  OnlineSoftmaxOf<1> softmax;
  float shrink[1][2];
  const auto mask_tile = [&](int key) {
    if (key + kTileKeys > keys_of_query(shape, site.first_query)) {
      mask(scores, shape, site.first_query + first_warp_row<1>(), key);
    }
  };

  wait_for(shared.q_is_full, progress.q_parity);
  progress.q_parity ^= 1U;
  wait_for(k.are_full[k_at.stage], k_at.parity);
  begin_scores<T>(scores, shared.q, first_row, k.tiles[k_at.stage]);
  wait_for_products<0>();
  hold_in_place(flat(scores));
  release(k.are_empty[k_at.stage]);
  k_at.advance();
  mask_tile(0);
  softmax.weigh(scores, factor, shrink);  // output is zeros: nothing to shrink
  pack_weights<T>(weights, scores);
  hold_in_place(flat(output));
  for (int key = kTileKeys; key < site.most_keys; key += kTileKeys) {
    wait_for(k.are_full[k_at.stage], k_at.parity);
    turns.wait();
    begin_scores<T>(scores, shared.q, first_row, k.tiles[k_at.stage]);
    wait_for(v.are_full[v_at.stage], v_at.parity);
    begin_output<T>(output, weights, v.tiles[v_at.stage]);  // of the tile before
    turns.pass();
    wait_for_products<1>();  // the scores
    hold_in_place(flat(scores));
    release(k.are_empty[k_at.stage]);
    k_at.advance();
    mask_tile(key);
    softmax.weigh(scores, factor, shrink);
    finish_before_wait(softmax.has_negative_sum());  // else the powers come behind the wait
    wait_for_products<0>();
    hold_in_place(flat(output));
    hold_in_place(weights[0]);
    release(v.are_empty[v_at.stage]);
    v_at.advance();
    OnlineSoftmaxOf<1>::shrink_rows(output, shrink);
    pack_weights<T>(weights, scores);
  }
  end.release_queries();
  wait_for(v.are_full[v_at.stage], v_at.parity);
  begin_output<T>(output, weights, v.tiles[v_at.stage]);
  wait_for_products<0>();
  hold_in_place(flat(output));
  hold_in_place(weights[0]);
  release(v.are_empty[v_at.stage]);
  v_at.advance();
  end.store(output, softmax);
}

// The end of a block that has one tile of queries: nobody waits for its queries' place, and o leaves
// from registers.
template <int kHeadDim, typename T>
struct StoreFromRegisters {
  const ProblemOf<T>& problem;
  const BlockSite& site;

  __device__ __forceinline__ void release_queries() const {}
  template <typename Output>
  __device__ __forceinline__ void store(const Output& output,
                                        const OnlineSoftmaxOf<1>& softmax) const {
    store_rows<kHeadDim, true>(problem, site, output, softmax);
  }
};

// What TMA fetches from.
struct Maps {
  const TensorMap& q;
  const TensorMap& k;
  const TensorMap& v;
};

// A block's work. kHeadDim: the tiles' columns; those from head_dim on hold zeros.
// turns_of(warpgroup) says when a multiplying warpgroup may begin its products.
template <int kHeadDim, typename T, typename TurnsOf>
__device__ __forceinline__ void attend_block(const Maps& maps, const ProblemOf<T>& problem,
                                             const TurnsOf& turns_of) {
  auto& shared = aligned_shared<Shared<kHeadDim>>();
  const BlockSite site = site_of_block<kQueryRows<kHeadDim>>(problem.shape);
  if (threadIdx.x == 0) {
    shared.init();
    publish_barriers();
  }
  __syncthreads();  // without it, others wait at barriers that do not exist yet
  const int warpgroup = warpgroup_index();
  if (warpgroup < kConsumers<kHeadDim>) {
    take_registers<kMultiplierRegisters<kHeadDim>>();
    const auto turns = turns_of(warpgroup);
    turns.begin();
    Progress<kHeadDim> progress;
    attend<kHeadDim>(problem, site, shared, progress, warpgroup, turns,
                     StoreFromRegisters<kHeadDim, T>{problem, site});
    turns.end();
    return;
  }
  give_registers<kFetcherRegisters<kHeadDim>>();
  const Shape& shape = problem.shape;
  const int number = static_cast<int>(blockIdx.y);
  const HeadAt head = head_at(number, shape.kv_heads * shape.group);
  const HeadAt kv_head = {head.sequence, head.head / shape.group};
  RingPosition<kStages<kHeadDim>> position;
  if (threadIdx.x % kWarpgroup == 0) {
    fetch_tile(shared.q, maps.q, head, site.first_query, shared.q_is_full);
    fetch_tiles(shared.k, position, maps.k, kv_head, site.most_keys);
  } else if (threadIdx.x % kWarpgroup == 32) {
    fetch_tiles(shared.v, position, maps.v, kv_head, site.most_keys);
  }
}

// The rows of `heads` heads in each sequence, as TMA hears of them.
inline TensorMap describe_heads(const Shape& shape, const void* rows, int heads, int box_rows) {
  return hopper::describe_heads(
      rows, {shape.batch, heads, shape.seq_len, shape.head_dim, shape.tokens_first}, box_rows);
}

// A kernel that takes the three maps and the problem.
template <typename T>
using Kernel = void (*)(TensorMap, TensorMap, TensorMap, ProblemOf<T>);

template <int kHeadDim, typename T>
void launch_attention(const char* name, Kernel<T> kernel, const ProblemOf<T>& problem,
                      const simt::Queue& queue) {
  const Shape& shape = problem.shape;
  const int heads = shape.kv_heads * shape.group;
  simt::launch(
      kernel,
      {.name = name,
       .grid = {.x = simt::ceil_div(static_cast<std::size_t>(shape.seq_len), kQueryRows<kHeadDim>),
                .y = static_cast<unsigned>(shape.heads())},
       .block = {.x = (kConsumers<kHeadDim> + 1) * kWarpgroup},
       .shared_bytes = bytes_of<Shared<kHeadDim>>(),
       .queue = queue},
      describe_heads(shape, problem.q, heads, kQueryRows<kHeadDim>),
      describe_heads(shape, problem.k, shape.kv_heads, kTileKeys),
      describe_heads(shape, problem.v, shape.kv_heads, kTileKeys), problem);
}

}  // namespace
}  // namespace ultra::kernels::attention_bf16
