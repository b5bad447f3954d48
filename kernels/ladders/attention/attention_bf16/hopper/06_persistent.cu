// Rung 6: one block per multiprocessor, which stays; o leaves through TMA. Checked on the emulator,
//         right on an H200.
//
// Idea:   a block computes tile after tile of queries. Its fetchers know nothing of the tiles' ends:
//         the next tile's queries, keys and values arrive while this one's last products and its
//         output are under way. o is divided, rounded into shared memory (stmatrix) and stored by
//         the copy engine, while its warpgroup goes on to the next tile. Of a causal problem, tiles
//         are as long as the keys that they see: the longest ones are begun first, and each round
//         of tiles is dealt in the opposite order, so that blocks end at about the same time.
// Moves:  what rung 5 moves, with o in whole lines instead of 16 bytes of each of 8 rows. Tiles that
//         are computed at the same time belong to a few heads, whose keys and values stay in the
//         second-level cache.
// Cost:   o's place in shared memory; 16 registers of each multiplying thread, which the fetchers
//         need to count tiles.
// Limit:  a warpgroup's first scores and last output of a tile have no softmax beside them but the
//         other warpgroups'. What is left is the power of the card.
// Source: Shah et al. 2024, FlashAttention-3, arXiv 2407.08608, section 3.1.

#include <algorithm>

#include "kernels/hopper/staged_sums.cuh"
#include "kernels/ladders/attention/attention_bf16/hopper/taking_turns.cuh"
#include "kernels/ladders/attention/attention_bf16/hopper/warpgroup_attention.cuh"
#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

// 32 + 3 x 160 = 4 x 128, and 40 + 2 x 232 = 3 x 168.
template <int kHeadDim>
constexpr int kStayingFetcherRegisters = kConsumers<kHeadDim> == 3 ? 32 : 40;
template <int kHeadDim>
constexpr int kStayingMultiplierRegisters = kConsumers<kHeadDim> == 3 ? 160 : 232;

// Phases of q_is_empty: tile n of the block waits for phase n - 1, as stages of keys do.
template <int kHeadDim>
struct StayingShared : Shared<kHeadDim> {
  alignas(kBoxAlignment) StagedBoxes<kHeadDim / kBoxColumns> o[kConsumers<kHeadDim>];
  Barrier q_is_empty;
};

// A tile of queries of a head.
struct Work {
  HeadAt head;
  BlockSite site;
};

// All tiles of queries: heads_at_once heads are gone through together, longest tiles first.
template <int kHeadDim>
struct Tiles {
  const Shape& shape;
  int heads_at_once;

  // Calls visit(work) for this block's tiles. Of each round of as many tiles as there are blocks, it
  // has one.
  template <typename Visit>
  __device__ __forceinline__ void for_own(const Visit& visit) const {
    constexpr int kRowsOfTile = kQueryRows<kHeadDim>;
    const int of_head = (shape.seq_len + kRowsOfTile - 1) / kRowsOfTile;
    const int heads = shape.batch * shape.kv_heads * shape.group;
    const int blocks = static_cast<int>(gridDim.x);
    const int own = static_cast<int>(blockIdx.x);
    for (int first = 0; first < heads * of_head; first += blocks) {
      const int number = first + (first / blocks % 2 == 0 ? own : blocks - 1 - own);
      if (number < heads * of_head) {
        const auto [head, from_last] = matmul_bf16::tile_at(number, heads, of_head, heads_at_once);
        visit(Work{head_at(head, shape.kv_heads * shape.group),
                   site_of_tile<kRowsOfTile>(shape, head, of_head - 1 - from_last)});
      }
    }
  }
};

// The end of a tile: its queries' place is free, and o leaves through shared memory.
template <int kHeadDim, typename T>
struct StoreThroughTma {
  const ProblemOf<T>& problem;
  const TensorMap& o_map;
  const Work& work;
  StayingShared<kHeadDim>& shared;
  int warpgroup;

  __device__ __forceinline__ void release_queries() const { release(shared.q_is_empty); }

  template <typename Output>
  __device__ __forceinline__ void store(Output& output, const OnlineSoftmaxOf<1>& softmax) const {
    constexpr int kBoxes = kHeadDim / kBoxColumns;
    constexpr int kFirstName = 1 + kConsumers<kHeadDim>;  // behind those of turns
    const BlockSite& site = work.site;
    float factors[1][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = softmax.sum_of_row(0, half);
      factors[0][half] = 1.0F / sum;
      const int query = site.first_query + first_warp_row<1>() + lane_group() + half * 8;
      if (query < problem.shape.seq_len && lane_in_group() == 0) {
        simt::stg(&problem.lse[site.first_row + query], softmax.lse_of_row(0, half, sum));
      }
    }
    OnlineSoftmaxOf<1>::shrink_rows(output, factors);
    store_through_boxes<kBoxes, T>(
        shared.o[warpgroup], flat(output)[0], kFirstName + warpgroup, [&] {
#pragma unroll
          for (int box = 0; box < kBoxes; ++box) {
            store_box(o_map, work.head, site.first_query + warpgroup * kRows, box * kBoxColumns,
                      shared.o[warpgroup][box]);
          }
        });
  }
};

template <int kHeadDim>
__device__ __forceinline__ void fetch_queries(StayingShared<kHeadDim>& shared,
                                              const TensorMap& q_map,
                                              const Tiles<kHeadDim>& tiles) {
  unsigned parity = 1;
  tiles.for_own([&](const Work& work) {
    wait_for(shared.q_is_empty, parity);
    parity ^= 1U;
    fetch_tile(shared.q, q_map, work.head, work.site.first_query, shared.q_is_full);
  });
}

// Keys, or values.
template <int kHeadDim, typename RingType>
__device__ __forceinline__ void fetch_for_all(RingType& ring, const TensorMap& map,
                                              const Tiles<kHeadDim>& tiles) {
  RingPosition<kStages<kHeadDim>> position;  // goes on from tile to tile
  tiles.for_own([&](const Work& work) {
    fetch_tiles(ring, position, map, {work.head.sequence, work.head.head / tiles.shape.group},
                work.site.most_keys);
  });
}

template <int kHeadDim, typename T>
__global__ void __launch_bounds__((kConsumers<kHeadDim> + 1) * kWarpgroup, 1)
    persistent_kernel(const __grid_constant__ TensorMap q_map,
                      const __grid_constant__ TensorMap k_map,
                      const __grid_constant__ TensorMap v_map,
                      const __grid_constant__ TensorMap o_map, const ProblemOf<T> problem,
                      int heads_at_once) {
  auto& shared = aligned_shared<StayingShared<kHeadDim>>();
  if (threadIdx.x == 0) {
    shared.init();
    init_barrier(shared.q_is_empty, kMultiplyingWarps<kHeadDim>);
    publish_barriers();
  }
  __syncthreads();  // without it, others wait at barriers that do not exist yet
  const Tiles<kHeadDim> tiles{problem.shape, heads_at_once};
  const int warpgroup = warpgroup_index();
  if (warpgroup < kConsumers<kHeadDim>) {
    take_registers<kStayingMultiplierRegisters<kHeadDim>>();
    const TakingTurns<kConsumers<kHeadDim>> turns(warpgroup);
    Progress<kHeadDim> progress;
    turns.begin();
    tiles.for_own([&](const Work& work) {
      attend<kHeadDim>(problem, work.site, shared, progress, warpgroup, turns,
                       StoreThroughTma<kHeadDim, T>{problem, o_map, work, shared, warpgroup});
    });
    turns.end();
    if (threadIdx.x % kWarpgroup == 0) {
      wait_until_boxes_are_read();  // shared memory stays until TMA has read it
    }
    return;
  }
  give_registers<kStayingFetcherRegisters<kHeadDim>>();
  if (threadIdx.x % kWarpgroup == 0) {
    fetch_for_all(shared.k, k_map, tiles);
  } else if (threadIdx.x % kWarpgroup == 32) {
    fetch_for_all(shared.v, v_map, tiles);
  } else if (threadIdx.x % kWarpgroup == 64) {
    fetch_queries(shared, q_map, tiles);
  }
}

// Heads whose keys and values fit the larger part of an H100's second-level cache of 50 MiB.
int heads_that_fit(const Shape& shape) {
  constexpr std::size_t kCacheBytes = std::size_t{32} << 20;
  const std::size_t bytes = 2 * sizeof(bf16) * std::size_t(shape.seq_len) * shape.head_dim;
  const std::size_t kv_heads = std::max<std::size_t>(1, kCacheBytes / bytes);
  return static_cast<int>(std::min<std::size_t>(kv_heads * shape.group, shape.heads()));
}

template <int kHeadDim, typename T>
void launch_staying(const ProblemOf<T>& problem, const simt::Queue& queue) {
  const Shape& shape = problem.shape;
  const int heads = shape.kv_heads * shape.group;
  const unsigned tiles =
      simt::ceil_div(static_cast<std::size_t>(shape.seq_len), kQueryRows<kHeadDim>) *
      static_cast<unsigned>(shape.heads());
  simt::launch(persistent_kernel<kHeadDim, T>,
               {.name = "persistent",
                .grid = {.x = std::min(tiles, count_multiprocessors(queue))},
                .block = {.x = (kConsumers<kHeadDim> + 1) * kWarpgroup},
                .shared_bytes = bytes_of<StayingShared<kHeadDim>>(),
                .queue = queue},
               describe_heads(shape, problem.q, heads, kQueryRows<kHeadDim>),
               describe_heads(shape, problem.k, shape.kv_heads, kTileKeys),
               describe_heads(shape, problem.v, shape.kv_heads, kTileKeys),
               describe_heads(shape, problem.o, heads, kRows), problem, heads_that_fit(shape));
}

template <typename T>
void launch_persistent(const ProblemOf<T>& problem, const simt::Queue& queue) {
  expect_hopper("rungs 1 to 3 run on any GPU since the A100");
  if (problem.shape.head_dim <= 64) {
    launch_staying<64>(problem, queue);
  } else {
    launch_staying<128>(problem, queue);
  }
}

}  // namespace

template <>
void persistent<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  launch_persistent(problem, queue);
}

template <>
void persistent_f16<simt::kExecutor>(const ProblemOf<simt::half>& problem,
                                     const simt::Queue& queue) {
  launch_persistent(problem, queue);
}

}  // namespace ultra::kernels::attention_bf16
