// Rung 1: the logits in memory.
//
// Idea:   a product in bf16 with fp32 results, then a block per token that reads its row of logits
//         once (an online sum) and makes the loss.
// Cost:   8 bytes moved per logit. With 8192 tokens and a vocabulary of 128,256, the logits are 4.2
//         GB.
// Limit:  the memory that they take: more than all activations of a layer, for one number per
//         token.

#include <cmath>

#include "kernels/ladders/matmul/matmul_bf16/block_tile.cuh"
#include "kernels/ladders/rows/cross_entropy/online_sum.cuh"
#include "kernels/ladders/rows/linear_cross_entropy/linear_cross_entropy.hpp"

namespace ultra::kernels::linear_cross_entropy {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;
using namespace cross_entropy;

__global__ void __launch_bounds__(kThreads, 2) logits_kernel(const Problem problem) {
  WarpSums sums = {};
  const int token = blockIdx.x * kTile;
  const int row = blockIdx.y * kTile;
  multiply_tile(sums, dynamic_shared<uint4>(), {problem.x, token, problem.tokens},
                {problem.weight, row, problem.vocab}, problem.hidden);
  visit_sums(sums, [&](int tile_row, int tile_column, float sum) {
    const int own_token = token + tile_row;
    const int column = row + tile_column;
    if (own_token < problem.tokens && column < problem.vocab) {
      stg(&problem.scratch[static_cast<std::size_t>(own_token) * problem.vocab + column], sum);
    }
  });
}

constexpr int kLossThreads = 256;

__global__ void __launch_bounds__(kLossThreads) loss_kernel(const Problem problem) {
  __shared__ float of_warps[kFloatsOfMerge];
  const float* const row = problem.scratch + static_cast<std::size_t>(blockIdx.x) * problem.vocab;
  OnlineSum mine = nothing();
  for (int column = threadIdx.x; column < problem.vocab; column += kLossThreads) {
    const Pack<float, 1> logit = ldg(reinterpret_cast<const Pack<float, 1>*>(&row[column]));
    mine = add(mine, logit);
  }
  const OnlineSum all = merge_block(mine, of_warps);
  if (threadIdx.x == 0) {
    const int target = ldg(&problem.targets[blockIdx.x]);
    const float of_target = ldg(&row[target]);
    stg(&problem.losses[blockIdx.x], all.highest + logf(all.sum) - of_target);
  }
}

}  // namespace

template <>
void materialized<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(logits_kernel,
         {.name = "logits",
          .grid = {.x = ceil_div(problem.tokens, kTile), .y = ceil_div(problem.vocab, kTile)},
          .block = {.x = kThreads},
          .shared_bytes = kSharedBytes,
          .queue = queue},
         problem);
  launch(loss_kernel,
         {.name = "loss",
          .grid = {.x = static_cast<unsigned>(problem.tokens)},
          .block = {.x = kLossThreads},
          .queue = queue},
         problem);
}

}  // namespace ultra::kernels::linear_cross_entropy
