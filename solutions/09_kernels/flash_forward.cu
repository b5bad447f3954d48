// Rung 4 of attention: tiles of keys and values in shared memory, shared by the rows of a block.
//
// Idea:   a block owns 64 rows of a head and goes through the keys in tiles of 64. Scores and weights of
//         a tile exist in registers and shared memory only. The online softmax works on tiles: o and the
//         sum shrink by exp(old largest - new largest) once per tile, and o is divided by the sum once,
//         at the end (Dao 2023, arXiv 2307.08691, section 3.1). Each thread computes 4 x 4 scores.
// Gain:   each key and value is loaded once per 64 rows instead of once per row; 4 shuffles per 64 keys
//         of a row instead of 5 per key; 64 multiply-adds per 8 loads of shared memory.
// Limit:  tiles above the diagonal are computed and thrown away: half of all under the causal mask.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/attention/attention/tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

using namespace simt;

constexpr int kRows = 4;     // of each thread
constexpr int kColumns = 4;  // scores of each thread in a row, kAcross apart

// kHeadDim: the tiles' columns; those from shape.head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2)
    flash_forward_kernel(const float* __restrict__ q, const float* __restrict__ k,
                         const float* __restrict__ v, float* __restrict__ o,
                         float* __restrict__ lse, Shape shape) {
  float* const q_tile = dynamic_shared<float>();
  float* const k_tile = &q_tile[kTile * kStride<kHeadDim>];
  float* const v_tile = &k_tile[kTile * kStride<kHeadDim>];
  float* const weights = k_tile;  // the keys have been used when the weights come
  const int first_query = blockIdx.x * kTile;
  const int own_query = first_query + own_first_row();
  const int tx = threadIdx.x % kAcross;
  const std::size_t first_row = std::size_t(blockIdx.y) * shape.seq_len;
  const std::size_t first_key_row = std::size_t(blockIdx.y / shape.group) * shape.seq_len;

  load_tile<kTile, kHeadDim>(q_tile, &q[(first_row + first_query) * shape.head_dim],
                             shape.seq_len - first_query, shape.head_dim);
  float4 output[kRows][kHeadDim / 64] = {};
  float largest[kRows] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  float sum[kRows] = {};  // over this thread's columns
  for (int first_key = 0; first_key < shape.seq_len; first_key += kTile) {
    // Without it, keys and values overwrite weights and values that others still multiply.
    __syncthreads();
    const std::size_t first = (first_key_row + first_key) * shape.head_dim;
    load_tile<kTile, kHeadDim>(k_tile, &k[first], shape.seq_len - first_key, shape.head_dim);
    load_tile<kTile, kHeadDim>(v_tile, &v[first], shape.seq_len - first_key, shape.head_dim);
    // Without it, a thread reads what another has not loaded yet.
    __syncthreads();
    float scores[kRows][kColumns] = {};
    multiply_transposed<kHeadDim>(scores, q_tile, k_tile);
    // Without it, weights overwrite keys that others still multiply.
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float largest_here = -INFINITY;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int key = first_key + tx + c * kAcross;
        const bool is_seen = key < shape.seq_len && (!shape.causal || key <= own_query + r);
        scores[r][c] = is_seen ? scores[r][c] * shape.scale : -INFINITY;
        largest_here = fmaxf(largest_here, scores[r][c]);
      }
      // Every row sees key 0, which is in the first tile: never -inf - -inf.
      const float before = largest[r];
      largest[r] = fmaxf(before, max_over_row(largest_here));
      const float shrink = __expf(before - largest[r]);
      sum[r] *= shrink;
#pragma unroll
      for (int n = 0; n < kHeadDim / 64; ++n) {
        multiply(output[r][n], shrink);
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float weight = __expf(scores[r][c] - largest[r]);
        sum[r] += weight;
        const int row = own_first_row() + r;
        sts(&weights[row * kStride<kTile> + tx + c * kAcross], weight);
      }
    }
    // The threads of a row are in one warp. Without it, one multiplies weights before another's stores.
    __syncwarp();
    multiply<kHeadDim>(output, weights, v_tile);
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum_of_row = sum_over_row(sum[r]);
    const std::size_t row = first_row + own_query + r;
    if (own_query + r < shape.seq_len) {
      store_row(&o[row * shape.head_dim], output[r], 1.0F / sum_of_row, shape.head_dim);
      if (tx == 0) {
        stg(&lse[row], largest[r] + logf(sum_of_row));
      }
    }
  }
}

template <int kHeadDim>
void launch_flash_forward(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  launch(flash_forward_kernel<kHeadDim>,
         {.name = "flash forward",
          .grid = {.x = ceil_div(shape.seq_len, kTile), .y = static_cast<unsigned>(shape.heads())},
          .block = {.x = kThreads},
          .shared_bytes = 3 * kTile * kStride<kHeadDim> * sizeof(float),
          .queue = queue},
         problem.q, problem.k, problem.v, problem.o, problem.lse, shape);
}

}  // namespace

template <>
void flash_forward<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_flash_forward<64>(problem, queue);
  } else {
    launch_flash_forward<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention
