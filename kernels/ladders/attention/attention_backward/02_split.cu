// Rung 2: two kernels, one sums over queries, one over keys.
//
// Idea:   dk and dv belong to keys, dq to queries. A kernel for each keeps its sums in registers: a block
//         per tile of keys goes through the queries, a block per tile of queries through the keys. Both
//         compute weights and gradients of scores.
// Gain:   no atomics: S / 64 fewer passes over dq, and the same bits every time. Seven products per tile
//         instead of five is the price. Fewer tiles per block: two blocks of the queries' kernel on a
//         multiprocessor of an H100 while head_dim is at most 64.
// Limit:  the arithmetic of CUDA cores.

#include "kernels/ladders/attention/attention_backward/backward_tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_backward {
namespace {

using namespace simt;
using attention::load_tile;
using attention::multiply_transposed;

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1) keys_kernel(const Problem problem) {
  sum_over_queries(problem, KeyTiles<kHeadDim>(), [](std::size_t, int) {});
}

// Long rows first. kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kHeadDim == 64 ? 2 : 1)
    queries_kernel(const Problem problem) {
  float* const q_tile = dynamic_shared<float>();
  float* const d_o_tile = &q_tile[kTileFloats<kHeadDim>];
  float* const k_tile = &d_o_tile[kTileFloats<kHeadDim>];
  float* const v_tile = &k_tile[kTileFloats<kHeadDim>];
  float* const gradients = &v_tile[kTileFloats<kHeadDim>];
  const Shape& shape = problem.shape;
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kTile;
  const std::size_t row = std::size_t(blockIdx.y) * shape.seq_len + first_query;
  const std::size_t first_key_row = std::size_t(blockIdx.y / shape.group) * shape.seq_len;
  const int rows = shape.seq_len - first_query;

  load_tile<kTile, kHeadDim>(q_tile, &problem.q[row * shape.head_dim], rows, shape.head_dim);
  load_tile<kTile, kHeadDim>(d_o_tile, &problem.d_o[row * shape.head_dim], rows, shape.head_dim);
  RowStatistics statistics[kRows];
  load_statistics(statistics, problem.lse, problem.delta, row, rows);
  float4 d_q[kRows][kHeadDim / 64] = {};
  const int most_keys = attention::keys_of_query(shape, first_query + kTile - 1);
  for (int key = 0; key < most_keys; key += kTile) {
    const std::size_t first = (first_key_row + key) * shape.head_dim;
    const int keys = shape.seq_len - key;
    // Without it, keys overwrite what others still multiply.
    __syncthreads();
    load_tile<kTile, kHeadDim>(k_tile, &problem.k[first], keys, shape.head_dim);
    load_tile<kTile, kHeadDim>(v_tile, &problem.v[first], keys, shape.head_dim);
    // Without it, a thread reads what another has not loaded yet.
    __syncthreads();
    // [region queries]
    Part own_weights = {};
    multiply_transposed<kHeadDim>(own_weights, q_tile, k_tile);
    make_weights(own_weights, statistics, shape, first_query, key);
    Part own_gradients = {};
    multiply_transposed<kHeadDim>(own_gradients, d_o_tile, v_tile);
    make_gradients(own_gradients, own_weights, statistics, shape.scale);
    attention::store_weights(gradients, own_gradients);
    // The threads of a row are in one warp. Without it, one multiplies what another's stores change.
    __syncwarp();
    attention::multiply<kHeadDim>(d_q, gradients, k_tile);
    // [/region]
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int own = attention::own_first_row() + r;
    if (own < rows) {
      const std::size_t place = (row + own) * shape.head_dim;
      attention::store_row(&problem.d_q[place], d_q[r], 1.0F, shape.head_dim);
    }
  }
}

template <int kHeadDim>
void launch_split(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  const unsigned tiles = ceil_div(shape.seq_len, kTile);
  launch(keys_kernel<kHeadDim>,
         {.name = "keys",
          .grid = {.x = tiles, .y = static_cast<unsigned>(shape.batch * shape.kv_heads)},
          .block = {.x = kThreads},
          .shared_bytes = KeyTiles<kHeadDim>::kBytes,
          .queue = queue},
         problem);
  launch(queries_kernel<kHeadDim>,
         {.name = "queries",
          .grid = {.x = tiles, .y = static_cast<unsigned>(shape.heads())},
          .block = {.x = kThreads},
          .shared_bytes = KeyTiles<kHeadDim>::kBytes - kPartFloats * sizeof(float),
          .queue = queue},
         problem);
}

}  // namespace

template <>
void split<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_delta(problem, queue);
  if (problem.shape.head_dim <= 64) {
    launch_split<64>(problem, queue);
  } else {
    launch_split<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_backward
