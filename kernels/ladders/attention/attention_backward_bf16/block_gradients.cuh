#pragma once
/// @file
/// The two kernels of rung 1 as functions of a block's place, for sequences that lie wherever they
/// lie: Rows says where.

#include "kernels/ladders/attention/attention_backward_bf16/warp_gradients.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

using attention::Shape;
using attention_bf16::copy_tile;
using attention_bf16::keys_of_query;
using attention_bf16::lane_group;
using attention_bf16::lane_in_group;
using attention_bf16::multiply_queries;
using attention_bf16::multiply_weights;
using attention_bf16::Rows;
using attention_bf16::token_step;

// dk and dv of 128 keys: rows are keys, columns the queries of all heads that share them.
// kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim, typename T>
__device__ __forceinline__ void differentiate_keys(const ProblemOf<T>& problem, const Rows& rows_of,
                                                   int tile) {
  const Shape& shape = problem.shape;
  const int width = shape.head_dim;
  const int q_step = token_step(shape, shape.kv_heads * shape.group);
  const int k_step = token_step(shape, shape.kv_heads);
  const Tiles<kHeadDim, T> tiles;
  const int first_key = tile * kRows;
  const int key_row = rows_of.first_in(shape, shape.kv_heads, blockIdx.y) + first_key * k_step;
  const auto first_k = [&] { return std::size_t(key_row) * width; };
  const int first_q =  // of the first head that shares them
      rows_of.first_in(shape, shape.kv_heads * shape.group, blockIdx.y * shape.group);
  const int keys = shape.seq_len - first_key;
  // The first query that sees the block's first key is that key's own.
  const int first_query = shape.causal ? first_key : 0;
  const int tiles_of_head =
      (shape.seq_len - first_query + kColumns<kHeadDim> - 1) / kColumns<kHeadDim>;
  const auto copy_queries = [&](int stage, int step) {
    const int query = first_query + step % tiles_of_head * kColumns<kHeadDim>;
    const int row = first_q + step / tiles_of_head * rows_of.head_step(shape) + query * q_step;
    const std::size_t first = std::size_t(row) * width;
    const int rows = shape.seq_len - query;
    copy_tile<kColumns<kHeadDim>, kHeadDim, kThreads>(tiles.columns(stage, 0), &problem.q[first],
                                                      rows, width, q_step * width);
    copy_tile<kColumns<kHeadDim>, kHeadDim, kThreads>(tiles.columns(stage, 1), &problem.d_o[first],
                                                      rows, width, q_step * width);
    simt::commit_copies();
  };

  copy_tile<kRows, kHeadDim, kThreads>(tiles.rows(0), &problem.k[first_k()], keys, width,
                                       k_step * width);
  copy_tile<kRows, kHeadDim, kThreads>(tiles.rows(1), &problem.v[first_k()], keys, width,
                                       k_step * width);
  copy_queries(0, 0);
  Sums<kHeadDim> d_k = {};
  Sums<kHeadDim> d_v = {};
  const int own_key = first_key + attention_bf16::first_warp_row<1>() + lane_group();
  for (int step = 0; step < shape.group * tiles_of_head; ++step) {
    simt::wait_copies<0>();
    // Without it, a warp multiplies what another's copies have not brought yet; and the copies below
    // overwrite what another still multiplies.
    __syncthreads();
    if (step + 1 < shape.group * tiles_of_head) {
      copy_queries((step + 1) % 2, step + 1);
    }
    const T* const q_tile = tiles.columns(step % 2, 0);
    const T* const d_o_tile = tiles.columns(step % 2, 1);
    const int first_row =
        rows_of.first_of(blockIdx.y * shape.group) + step / tiles_of_head * rows_of.of_head;
    const int own_query =
        first_query + step % tiles_of_head * kColumns<kHeadDim> + 2 * lane_in_group();

    Scores<kHeadDim> weights = {};
    multiply_queries<kHeadDim>(weights, tiles.rows(0), q_tile);
#pragma unroll
    for (int n = 0; n < kColumns<kHeadDim> / 8; ++n) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int query = own_query + n * 8 + odd;
        const float lse = statistic(problem.lse, first_row, query, shape.seq_len) * kLog2E;
        const int seen = query < shape.seq_len ? keys_of_query(shape, query) : 0;
#pragma unroll
        for (int e = odd; e < 4; e += 2) {
          const float weight = simt::exp2_flushed(weights[0][n][e] * shape.scale * kLog2E - lse);
          weights[0][n][e] = own_key + e / 2 * 8 < seen ? weight : 0.0F;
        }
      }
    }
    Weights<kHeadDim> packed;
    attention_bf16::pack_weights<T>(packed, weights);
    multiply_weights<kHeadDim>(d_v, packed, d_o_tile);

    Scores<kHeadDim> gradients = {};
    multiply_queries<kHeadDim>(gradients, tiles.rows(1), d_o_tile);
#pragma unroll
    for (int n = 0; n < kColumns<kHeadDim> / 8; ++n) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int query = own_query + n * 8 + odd;
        const float delta = statistic(problem.delta, first_row, query, shape.seq_len);
#pragma unroll
        for (int e = odd; e < 4; e += 2) {
          gradients[0][n][e] = gradient_of(weights[0][n][e], gradients[0][n][e], delta);
        }
      }
    }
    attention_bf16::pack_weights<T>(packed, gradients);
    multiply_weights<kHeadDim>(d_k, packed, q_tile);
  }
  store_rows<kHeadDim>(problem.d_k, problem.wide_d_k, first_k(), d_k, shape.scale, keys, width,
                       k_step * width);
  store_rows<kHeadDim>(problem.d_v, problem.wide_d_v, first_k(), d_v, 1.0F, keys, width,
                       k_step * width);
}

// dq of 128 queries: rows are queries, columns keys.
template <int kHeadDim, typename T>
__device__ __forceinline__ void differentiate_queries(const ProblemOf<T>& problem,
                                                      const Rows& rows_of, int tile) {
  const Shape& shape = problem.shape;
  const int width = shape.head_dim;
  const int q_step = token_step(shape, shape.kv_heads * shape.group);
  const int k_step = token_step(shape, shape.kv_heads);
  const Tiles<kHeadDim, T> tiles;
  const int first_query = tile * kRows;
  const int first_row = rows_of.first_of(blockIdx.y);
  const std::size_t first =
      rows_of.element(shape, shape.kv_heads * shape.group, blockIdx.y, first_query);
  const int first_k = rows_of.first_in(shape, shape.kv_heads, blockIdx.y / shape.group);
  const int rows = shape.seq_len - first_query;
  const auto copy_keys = [&](int stage, int key) {
    const std::size_t place = std::size_t(first_k + key * k_step) * width;
    const int keys = shape.seq_len - key;
    copy_tile<kColumns<kHeadDim>, kHeadDim, kThreads>(tiles.columns(stage, 0), &problem.k[place],
                                                      keys, width, k_step * width);
    copy_tile<kColumns<kHeadDim>, kHeadDim, kThreads>(tiles.columns(stage, 1), &problem.v[place],
                                                      keys, width, k_step * width);
    simt::commit_copies();
  };

  copy_tile<kRows, kHeadDim, kThreads>(tiles.rows(0), &problem.q[first], rows, width,
                                       q_step * width);
  copy_tile<kRows, kHeadDim, kThreads>(tiles.rows(1), &problem.d_o[first], rows, width,
                                       q_step * width);
  copy_keys(0, 0);
  const int own_query = first_query + attention_bf16::first_warp_row<1>() + lane_group();
  float lse[2];
  float delta[2];
  int seen[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = own_query + half * 8;
    lse[half] = statistic(problem.lse, first_row, query, shape.seq_len) * kLog2E;
    delta[half] = statistic(problem.delta, first_row, query, shape.seq_len);
    seen[half] = query < shape.seq_len ? keys_of_query(shape, query) : 0;
  }
  Sums<kHeadDim> d_q = {};
  const int most_keys = keys_of_query(shape, first_query + kRows - 1);
  int stage = 0;
  for (int key = 0; key < most_keys; key += kColumns<kHeadDim>) {
    simt::wait_copies<0>();
    // Without it, a warp multiplies what another's copies have not brought yet; and the copies below
    // overwrite what another still multiplies.
    __syncthreads();
    if (key + kColumns<kHeadDim> < most_keys) {
      copy_keys(1 - stage, key + kColumns<kHeadDim>);
    }
    Scores<kHeadDim> weights = {};
    multiply_queries<kHeadDim>(weights, tiles.rows(0), tiles.columns(stage, 0));
    Scores<kHeadDim> gradients = {};
    multiply_queries<kHeadDim>(gradients, tiles.rows(1), tiles.columns(stage, 1));
    const int own_key = key + 2 * lane_in_group();
#pragma unroll
    for (int n = 0; n < kColumns<kHeadDim> / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float weight =
            simt::exp2_flushed(weights[0][n][e] * shape.scale * kLog2E - lse[e / 2]);
        const bool is_seen = own_key + n * 8 + e % 2 < seen[e / 2];
        gradients[0][n][e] = is_seen ? gradient_of(weight, gradients[0][n][e], delta[e / 2]) : 0.0F;
      }
    }
    Weights<kHeadDim> packed;
    attention_bf16::pack_weights<T>(packed, gradients);
    multiply_weights<kHeadDim>(d_q, packed, tiles.columns(stage, 0));
    stage = 1 - stage;
  }
  store_rows<kHeadDim>(problem.d_q, problem.wide_d_q, first, d_q, shape.scale, rows, width,
                       q_step * width);
}

}  // namespace
}  // namespace ultra::kernels::attention_backward_bf16
