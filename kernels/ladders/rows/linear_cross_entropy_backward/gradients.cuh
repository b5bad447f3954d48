#pragma once
/// @file
/// The three products of a range of tokens: gradients of logits, of x, and of the weight.

#include <cmath>

#include "kernels/ladders/matmul/matmul_bf16/turned_tile.cuh"
#include "kernels/ladders/rows/linear_cross_entropy_backward/linear_cross_entropy_backward.hpp"

namespace ultra::kernels::linear_cross_entropy_backward {
namespace {

using namespace simt;
using namespace matmul_bf16::block_tile;
using matmul_bf16::Lies;

static_assert(kTile == kTileSide);

// Tokens [first, end).
struct Chunk {
  int first;
  int end;
};

// d_logits = scale (softmax - 1 at the target), from logits that are computed anew: rows of the
// scratch are the chunk's tokens.
__global__ void __launch_bounds__(kThreads, 2)
    d_logits_kernel(const Problem problem, const Chunk chunk) {
  WarpSums sums = {};
  const int token = chunk.first + blockIdx.x * kTile;
  const int row = blockIdx.y * kTile;
  multiply_tile(sums, dynamic_shared<uint4>(), {problem.x, token, problem.tokens},
                {problem.weight, row, problem.vocab}, problem.hidden);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = token + warp_row() + i * 16 + lane / 4 + half * 8;
      if (own < chunk.end) {
        const float lse = ldg(&problem.lse[own]);
        const int target = ldg(&problem.targets[own]);
        bf16* const target_row =
            problem.d_logits + static_cast<std::size_t>(own - chunk.first) * problem.vocab;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
          const int column = row + warp_column() + j * 8 + lane % 4 * 2;
          if (column < problem.vocab) {  // and the next one: vocab is even
            float gradients[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const float share = expf(sums[i][j][2 * half + e] - lse);
              gradients[e] = problem.scale * (share - (column + e == target ? 1.0F : 0.0F));
            }
            stg(reinterpret_cast<unsigned*>(&target_row[column]),
                pack_bf16(gradients[0], gradients[1]));
          }
        }
      }
    }
  }
}

// d_x = d_logits weight
__global__ void __launch_bounds__(kThreads, 2)
    d_x_kernel(const Problem problem, const Chunk chunk) {
  WarpSums sums = {};
  const int tokens = chunk.end - chunk.first;
  const int token = blockIdx.x * kTile;
  const int column = blockIdx.y * kTile;
  multiply_factors<Lies::kAlongDepth, Lies::kAlongRows>(
      sums, dynamic_shared<uint4>(), {problem.d_logits, token, tokens},
      {problem.weight, column, problem.hidden}, problem.vocab);
  matmul_bf16::store_sums(problem.d_x + static_cast<std::size_t>(chunk.first) * problem.hidden,
                          token + warp_row(), column + warp_column(), tokens, problem.hidden, sums);
}

// d_weight = transpose(d_logits) x of the first chunk, and += of the others: in the order of the
// chunks, so that the result has the same bits in every run.
__global__ void __launch_bounds__(kThreads, 2)
    d_weight_kernel(const Problem problem, const Chunk chunk) {
  WarpSums sums = {};
  const int row = blockIdx.x * kTile;
  const int column = blockIdx.y * kTile;
  const bf16* const x = problem.x + static_cast<std::size_t>(chunk.first) * problem.hidden;
  multiply_factors<Lies::kAlongRows, Lies::kAlongRows>(
      sums, dynamic_shared<uint4>(), {problem.d_logits, row, problem.vocab},
      {x, column, problem.hidden}, chunk.end - chunk.first);
  visit_sums(sums, [&](int tile_row, int tile_column, float sum) {
    const int own_row = row + tile_row;
    const int own_column = column + tile_column;
    if (own_row < problem.vocab && own_column < problem.hidden) {
      float* const place =
          &problem.d_weight[static_cast<std::size_t>(own_row) * problem.hidden + own_column];
      const float before = chunk.first == 0 ? 0.0F : ldg(place);
      stg(place, before + sum);
    }
  });
}

// All three for a range of tokens.
inline void launch_chunk(const Problem& problem, const Chunk& chunk, const Queue& queue) {
  const unsigned token_tiles = ceil_div(chunk.end - chunk.first, kTile);
  const unsigned vocab_tiles = ceil_div(problem.vocab, kTile);
  const unsigned hidden_tiles = ceil_div(problem.hidden, kTile);
  Config config = {.name = "d_logits",
                   .grid = {.x = token_tiles, .y = vocab_tiles},
                   .block = {.x = kThreads},
                   .shared_bytes = kSharedBytes,
                   .queue = queue};
  launch(d_logits_kernel, config, problem, chunk);
  config.name = "d_x";
  config.grid = {.x = token_tiles, .y = hidden_tiles};
  launch(d_x_kernel, config, problem, chunk);
  config.name = "d_weight";
  config.grid = {.x = vocab_tiles, .y = hidden_tiles};
  launch(d_weight_kernel, config, problem, chunk);
}

}  // namespace
}  // namespace ultra::kernels::linear_cross_entropy_backward
