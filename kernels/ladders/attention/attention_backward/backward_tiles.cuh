#pragma once
/// @file
/// What the rungs of attention's backward pass have in common: delta, and the gradients of a tile of
/// scores. Tiles and their products are those of the forward pass.

#include "kernels/ladders/attention/attention/online_softmax.cuh"
#include "kernels/ladders/attention/attention/tiles.cuh"
#include "kernels/ladders/attention/attention_backward/attention_backward.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_backward {
namespace {

using attention::kAcross;
using attention::kStride;
using attention::kThreads;
using attention::kTile;
using attention::Shape;

constexpr int kRows = 4;     // of each thread in a product of tiles
constexpr int kColumns = 4;  // of its scores in a row, kAcross apart

// delta = rowsum(d_o * o): a warp per row, the lanes 16 bytes apart.
__global__ void delta_kernel(const float* __restrict__ o, const float* __restrict__ d_o,
                             float* __restrict__ delta, std::size_t rows, int head_dim) {
  constexpr int kWarp = 32;
  const std::size_t row = std::size_t(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) {
    return;
  }
  const int lane = threadIdx.x % kWarp;
  float sum = 0.0F;
  for (int d = lane * attention::kVector; d < head_dim; d += kWarp * attention::kVector) {
    const float4 output = simt::ldg(reinterpret_cast<const float4*>(&o[row * head_dim + d]));
    const float4 gradient = simt::ldg(reinterpret_cast<const float4*>(&d_o[row * head_dim + d]));
    sum += attention::dot(output, gradient);
  }
  sum = simt::warp_sum(sum);
  if (lane == 0) {
    simt::stg(&delta[row], sum);
  }
}

inline void launch_delta(const Problem& problem, const simt::Queue& queue) {
  const std::size_t rows = problem.shape.rows();
  simt::launch(delta_kernel,
               {.name = "delta",
                .grid = {.x = simt::ceil_div(rows, kThreads / 32)},
                .block = {.x = kThreads},
                .queue = queue},
               problem.o, problem.d_o, problem.delta, rows, problem.shape.head_dim);
}

// A thread's part of a tile of queries times a tile of keys: 4 x 4 weights, or gradients of scores.
using Part = float[kRows][kColumns];

// What a row needs for its weights.
struct RowStatistics {
  float lse;    // times log2(e)
  float delta;  // rowsum(d_o * o)
};

// Of the queries from `first_query` on, `row` is the first one's place among all rows. Rows behind the
// sequence are never seen: their values do not matter.
__device__ __forceinline__ void load_statistics(RowStatistics (&statistics)[kRows],
                                                const float* __restrict__ lse,
                                                const float* __restrict__ delta, std::size_t row,
                                                int rows) {
  const int own = attention::own_first_row();
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    statistics[r] = {0.0F, 0.0F};
    if (own + r < rows) {
      statistics[r].lse = simt::ldg(&lse[row + own + r]) * attention::kLog2E;
      statistics[r].delta = simt::ldg(&delta[row + own + r]);
    }
  }
}

// Turns scores into weights, 0 where a query does not see a key or lies behind the sequence.
__device__ __forceinline__ void make_weights(Part& scores, const RowStatistics (&statistics)[kRows],
                                             const Shape& shape, int first_query, int first_key) {
  const int own_query = first_query + attention::own_first_row();
  const int own_key = first_key + threadIdx.x % kAcross;
  const float factor = shape.scale * attention::kLog2E;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int keys =
        own_query + r < shape.seq_len ? attention::keys_of_query(shape, own_query + r) : 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float weight = simt::exp2_flushed(scores[r][c] * factor - statistics[r].lse);
      scores[r][c] = own_key + c * kAcross < keys ? weight : 0.0F;
    }
  }
}

// Turns d_o v^T into the gradients of raw scores, p (d_o v^T - delta) scale.
__device__ __forceinline__ void make_gradients(Part& products, const Part& weights,
                                               const RowStatistics (&statistics)[kRows],
                                               float scale) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      products[r][c] = weights[r][c] * (products[r][c] - statistics[r].delta) * scale;
    }
  }
}

// sums += weights^T values, for a tile [queries, keys] and a tile [queries, kHeadDim]: sums[r][n] belongs
// to key ty * 4 + r and columns tx * 4 + 64 n.
template <int kHeadDim>
__device__ __forceinline__ void multiply_from_left(float4 (&sums)[kRows][kHeadDim / 64],
                                                   const float* weights, const float* values) {
  const float* const own_weights = &weights[attention::own_first_row()];
  const float* const own_values = &values[threadIdx.x % kAcross * attention::kVector];
#pragma unroll 4
  for (int i = 0; i < kTile; ++i) {
    const float* const address = &own_weights[i * kStride<kTile>];
    const float4 four = simt::lds(reinterpret_cast<const float4*>(address));
    const float factors[kRows] = {four.x, four.y, four.z, four.w};
    attention::add_row(sums, factors, &own_values[i * kStride<kHeadDim>]);
  }
}

// Floats of a tile of queries, keys or values, and of one of weights.
template <int kHeadDim>
constexpr int kTileFloats = kTile* kStride<kHeadDim>;
constexpr int kPartFloats = kTile * kStride<kTile>;

// The shared memory of a block that owns a tile of keys.
template <int kHeadDim>
struct KeyTiles {
  static constexpr std::size_t kBytes =
      (4 * kTileFloats<kHeadDim> + 2 * kPartFloats) * sizeof(float);

  float* k = simt::dynamic_shared<float>();
  float* v = &k[kTileFloats<kHeadDim>];
  float* q = &v[kTileFloats<kHeadDim>];
  float* d_o = &q[kTileFloats<kHeadDim>];
  float* weights = &d_o[kTileFloats<kHeadDim>];
  float* gradients = &weights[kPartFloats];
};

// A whole block's work: dk and dv of tile blockIdx.x of head blockIdx.y of the keys. For every tile of
// queries that sees them, visit(first row, rows until the sequence's end) runs while the gradients of
// its scores and the keys are in shared memory.
template <int kHeadDim, typename Visit>
__device__ __forceinline__ void sum_over_queries(const Problem& problem,
                                                 const KeyTiles<kHeadDim>& tiles,
                                                 const Visit& visit) {
  const Shape& shape = problem.shape;
  const int columns = shape.head_dim;
  const int first_key = blockIdx.x * kTile;
  const std::size_t key_row = std::size_t(blockIdx.y) * shape.seq_len + first_key;
  const int keys = shape.seq_len - first_key;

  attention::load_tile<kTile, kHeadDim>(tiles.k, &problem.k[key_row * columns], keys, columns);
  attention::load_tile<kTile, kHeadDim>(tiles.v, &problem.v[key_row * columns], keys, columns);
  float4 d_k[kRows][kHeadDim / 64] = {};
  float4 d_v[kRows][kHeadDim / 64] = {};
  for (int member = 0; member < shape.group; ++member) {
    const std::size_t head = std::size_t(blockIdx.y) * shape.group + member;
    // The first query that sees the block's first key is that key's own.
    for (int query = shape.causal ? first_key : 0; query < shape.seq_len; query += kTile) {
      const std::size_t row = head * shape.seq_len + query;
      const int rows = shape.seq_len - query;
      // Without it, queries and gradients overwrite what others still multiply.
      __syncthreads();
      const std::size_t first = row * columns;
      attention::load_tile<kTile, kHeadDim>(tiles.q, &problem.q[first], rows, columns);
      attention::load_tile<kTile, kHeadDim>(tiles.d_o, &problem.d_o[first], rows, columns);
      RowStatistics statistics[kRows];
      load_statistics(statistics, problem.lse, problem.delta, row, rows);
      // Without it, a thread reads what another has not loaded yet.
      __syncthreads();
      Part weights = {};
      attention::multiply_transposed<kHeadDim>(weights, tiles.q, tiles.k);
      make_weights(weights, statistics, shape, query, first_key);
      attention::store_weights(tiles.weights, weights);
      Part gradients = {};
      attention::multiply_transposed<kHeadDim>(gradients, tiles.d_o, tiles.v);
      make_gradients(gradients, weights, statistics, shape.scale);
      attention::store_weights(tiles.gradients, gradients);
      // Without it, a thread multiplies columns of weights whose rows another has not stored yet.
      __syncthreads();
      multiply_from_left<kHeadDim>(d_v, tiles.weights, tiles.d_o);
      multiply_from_left<kHeadDim>(d_k, tiles.gradients, tiles.q);
      visit(row, rows);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int own = attention::own_first_row() + r;
    if (own < keys) {
      const std::size_t place = (key_row + own) * columns;
      attention::store_row(&problem.d_k[place], d_k[r], 1.0F, columns);
      attention::store_row(&problem.d_v[place], d_v[r], 1.0F, columns);
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_backward
