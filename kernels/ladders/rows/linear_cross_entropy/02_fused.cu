// Rung 2: no logits in memory.
//
// Idea:   a block has a tile of 128 tokens x 128 logits in registers. Of each token it needs two
//         numbers: the largest logit of the tile, and the sum of the exponentials measured against
//         it. A second kernel merges a token's tiles as the online softmax does. The block that has
//         a token's target in its tile writes that one logit.
// Gain:   8 bytes for each 128 logits instead of 512, twice: 4.2 GB of logits become 66 MB.
// Limit:  the tensor cores. A backward pass does the same once more: each tile of the logits'
//         gradient is computed anew, and multiplied at once.

#include <cmath>

#include "kernels/ladders/matmul/matmul_bf16/block_tile.cuh"
#include "kernels/ladders/rows/cross_entropy/online_sum.cuh"
#include "kernels/ladders/rows/linear_cross_entropy/linear_cross_entropy.hpp"

namespace ultra::kernels::linear_cross_entropy {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;
using namespace cross_entropy;

constexpr int kColumnWarps = kTileSide / WN;  // warps beside each other in the tile

// [region reduce]
// One row of a warp's sums, over the warp's 32 columns: a lane has 8 of them, the four lanes of a
// group the others. `columns` of them exist.
__device__ __forceinline__ OnlineSum reduce_row(const WarpSums& sums, int i, int half,
                                                int columns) {
  const int own_column = threadIdx.x % 4 * 2;
  OnlineSum own = nothing();
#pragma unroll
  for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool exists = j * 8 + own_column + e < columns;
      own.highest = exists ? fmaxf(own.highest, sums[i][j][2 * half + e]) : own.highest;
    }
  }
  const float shift = shift_of(own.highest);
#pragma unroll
  for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool exists = j * 8 + own_column + e < columns;
      own.sum += exists ? expf(sums[i][j][2 * half + e] - shift) : 0.0F;
    }
  }
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const float highest = __shfl_xor_sync(kAllLanes, own.highest, distance);
    const float sum = __shfl_xor_sync(kAllLanes, own.sum, distance);
    own = merge(own, {highest, sum});
  }
  return own;
}
// [/region]

// Writes the targets' logits that this thread has.
__device__ __forceinline__ void keep_targets(const Problem& problem, const WarpSums& sums,
                                             int first_token, int first_row) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = first_token + i * 16 + lane / 4 + half * 8;
      const int target = token < problem.tokens ? ldg(&problem.targets[token]) - first_row : -1;
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (target == j * 8 + lane % 4 * 2 + e) {
            stg(&problem.target_logits[token], sums[i][j][2 * half + e]);
          }
        }
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2) tiles_kernel(const Problem problem) {
  __shared__ OnlineSum of_warps[kColumnWarps][kTile];
  const int token = blockIdx.x * kTile;
  const int row = blockIdx.y * kTile;
  WarpSums sums = {};
  multiply_tile(sums, dynamic_shared<uint4>(), {problem.x, token, problem.tokens},
                {problem.weight, row, problem.vocab}, problem.hidden);
  keep_targets(problem, sums, token + warp_row(), row + warp_column());
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const OnlineSum partial = reduce_row(sums, i, half, problem.vocab - row - warp_column());
      if (lane % 4 == 0) {
        const int tile_row = warp_row() + i * 16 + lane / 4 + half * 8;
        sts(&of_warps[warp_column() / WN][tile_row], partial);
      }
    }
  }
  __syncthreads();  // else a thread merges what other warps have not stored
  const int own_token = token + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kTile && own_token < problem.tokens) {
    OnlineSum all = lds(&of_warps[0][threadIdx.x]);
    for (int warp = 1; warp < kColumnWarps; ++warp) {
      const OnlineSum other = lds(&of_warps[warp][threadIdx.x]);
      all = merge(all, other);
    }
    auto* const partials = reinterpret_cast<OnlineSum*>(problem.scratch);  // (tiles, tokens)
    stg(&partials[static_cast<std::size_t>(blockIdx.y) * problem.tokens + own_token], all);
  }
}

constexpr int kMergeThreads = 128;

__global__ void __launch_bounds__(kMergeThreads) merge_kernel(const Problem problem, int tiles) {
  const int token = blockIdx.x * kMergeThreads + threadIdx.x;
  if (branch(token < problem.tokens)) {
    const auto* const partials = reinterpret_cast<const OnlineSum*>(problem.scratch);
    OnlineSum all = nothing();
    for (int tile = 0; tile < tiles; ++tile) {
      const OnlineSum other =
          ldg(&partials[static_cast<std::size_t>(tile) * problem.tokens + token]);
      all = merge(all, other);
    }
    const float of_target = ldg(&problem.target_logits[token]);
    stg(&problem.losses[token], all.highest + logf(all.sum) - of_target);
  }
}

}  // namespace

template <>
void fused<kExecutor>(const Problem& problem, const Queue& queue) {
  const unsigned tiles = ceil_div(problem.vocab, kTile);
  launch(tiles_kernel,
         {.name = "tiles",
          .grid = {.x = ceil_div(problem.tokens, kTile), .y = tiles},
          .block = {.x = kThreads},
          .shared_bytes = kSharedBytes,
          .queue = queue},
         problem);
  launch(merge_kernel,
         {.name = "merge",
          .grid = {.x = ceil_div(problem.tokens, kMergeThreads)},
          .block = {.x = kMergeThreads},
          .queue = queue},
         problem, static_cast<int>(tiles));
}

}  // namespace ultra::kernels::linear_cross_entropy
