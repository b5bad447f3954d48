// Rung 5: what a causal softmax need not do.
//
// Idea:   the loop ends with the tile of the block's last query, and only tiles that the diagonal or the
//         end of the sequence cuts are masked. Scores are scaled by scale * log2(e), so that a weight is
//         2^(a multiply-add) and one instruction. Blocks with long rows start first, so that the last
//         blocks to finish are short.
// Gain:   (S / 64 + 1) / 2 tiles of keys per block instead of S / 64, half of loads and arithmetic; a
//         weight is one multiply-add and one exponential; no comparisons in most tiles.
// Limit:  shared memory: 8 loads of 16 bytes per 64 multiply-adds, and a tile of keys per 64 rows.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/attention/attention/online_softmax.cuh"
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
    flash_causal_kernel(const float* __restrict__ q, const float* __restrict__ k,
                        const float* __restrict__ v, float* __restrict__ o, float* __restrict__ lse,
                        Shape shape) {
  float* const q_tile = dynamic_shared<float>();
  float* const k_tile = &q_tile[kTile * kStride<kHeadDim>];
  float* const v_tile = &k_tile[kTile * kStride<kHeadDim>];
  float* const weights = k_tile;  // the keys have been used when the weights come
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kTile;
  const int own_query = first_query + own_first_row();
  const std::size_t first_row = std::size_t(blockIdx.y) * shape.seq_len;
  const std::size_t first_key_row = std::size_t(blockIdx.y / shape.group) * shape.seq_len;

  load_tile<kTile, kHeadDim>(q_tile, &q[(first_row + first_query) * shape.head_dim],
                             shape.seq_len - first_query, shape.head_dim);
  float4 output[kRows][kHeadDim / 64] = {};
  OnlineSoftmax<kRows> softmax;
  const int most_keys = keys_of_query(shape, first_query + kTile - 1);
  for (int first_key = 0; first_key < most_keys; first_key += kTile) {
    // Without it, keys and values overwrite weights and values that others still multiply.
    __syncthreads();
    const std::size_t first = (first_key_row + first_key) * shape.head_dim;
    load_tile<kTile, kHeadDim>(k_tile, &k[first], shape.seq_len - first_key, shape.head_dim);
    load_tile<kTile, kHeadDim>(v_tile, &v[first], shape.seq_len - first_key, shape.head_dim);
    // Without it, a thread reads what another has not loaded yet.
    __syncthreads();
    float scores[kRows][kColumns] = {};
    multiply_transposed<kHeadDim>(scores, q_tile, k_tile);
    // The same for the whole block: the first tile that a row of it does not see whole.
    if ((shape.causal && first_key == first_query) || first_key + kTile > shape.seq_len) {
      mask(scores, first_key, [&](int r) { return keys_of_query(shape, own_query + r); });
    }
    softmax.add(scores, output, shape.scale * kLog2E);
    // Without it, weights overwrite keys that others still multiply.
    __syncthreads();
    store_weights(weights, scores);
    // The threads of a row are in one warp. Without it, one multiplies weights before another's stores.
    __syncwarp();
    multiply<kHeadDim>(output, weights, v_tile);
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = softmax.sum_of_row(r);
    const std::size_t row = first_row + own_query + r;
    if (own_query + r < shape.seq_len) {
      store_row(&o[row * shape.head_dim], output[r], 1.0F / sum, shape.head_dim);
      if (threadIdx.x % kAcross == 0) {
        stg(&lse[row], softmax.lse_of_row(r, sum));
      }
    }
  }
}

template <int kHeadDim>
void launch_flash_causal(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  launch(flash_causal_kernel<kHeadDim>,
         {.name = "flash causal",
          .grid = {.x = ceil_div(shape.seq_len, kTile), .y = static_cast<unsigned>(shape.heads())},
          .block = {.x = kThreads},
          .shared_bytes = 3 * kTile * kStride<kHeadDim> * sizeof(float),
          .queue = queue},
         problem.q, problem.k, problem.v, problem.o, problem.lse, shape);
}

}  // namespace

template <>
void flash_causal<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_flash_causal<64>(problem, queue);
  } else {
    launch_flash_causal<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention
