// Rung 6: the heads of a group share a block, and the block is twice as large.
//
// Idea:   heads that share keys and values go through them together: a block's 128 rows are 128 / group
//         neighbouring queries of every head of the group (row = query * group + head). A thread
//         computes 8 x 4 scores.
// Gain:   a tile of keys and values per 128 rows instead of 64: half the loads. 12 loads of shared memory
//         per 128 multiply-adds instead of 8 per 64. Rows of a block differ by 128 / group queries only,
//         so the diagonal cuts less off; and short sequences fill a block.
// Limit:  the arithmetic of CUDA cores; loads wait at the barriers, with one block on a multiprocessor.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/attention/attention/online_softmax.cuh"
#include "kernels/ladders/attention/attention/tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

using namespace simt;

constexpr int kRows = 8;     // of each thread
constexpr int kColumns = 4;  // scores of each thread in a row, kAcross apart
constexpr int kBlockRows = kThreads / kAcross * kRows;

// The rows of a head of keys and values: the queries of all heads of its group, query by query.
struct GroupRows {
  Shape shape;
  int kv_head;

  [[nodiscard]] __device__ __forceinline__ int count() const { return shape.seq_len * shape.group; }
  [[nodiscard]] __device__ __forceinline__ int query(int row) const { return row / shape.group; }
  // Where a row lies among all rows of the problem.
  [[nodiscard]] __device__ __forceinline__ std::size_t place(int row) const {
    const int head = kv_head * shape.group + row % shape.group;
    return std::size_t(head) * shape.seq_len + query(row);
  }
};

template <int kHeadDim>
__device__ __forceinline__ void load_queries(float* tile, const float* __restrict__ q,
                                             const GroupRows& rows, int first_row) {
  const int first = static_cast<int>(threadIdx.x) / kVectorsOfRow<kHeadDim>;
  const int column = static_cast<int>(threadIdx.x) % kVectorsOfRow<kHeadDim> * kVector;
#pragma unroll 4
  for (int r = first; r < kBlockRows; r += kThreads / kVectorsOfRow<kHeadDim>) {
    const int row = first_row + r;
    float4 values = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (row < rows.count() && column < rows.shape.head_dim) {
      const float* const source = &q[rows.place(row) * rows.shape.head_dim + column];
      values = ldg(reinterpret_cast<const float4*>(source));
    }
    sts(reinterpret_cast<float4*>(&tile[r * kStride<kHeadDim> + column]), values);
  }
}

// kHeadDim: the tiles' columns; those from shape.head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    flash_grouped_kernel(const float* __restrict__ q, const float* __restrict__ k,
                         const float* __restrict__ v, float* __restrict__ o,
                         float* __restrict__ lse, Shape shape) {
  float* const q_tile = dynamic_shared<float>();
  float* const k_tile = &q_tile[kBlockRows * kStride<kHeadDim>];
  float* const v_tile = &k_tile[kTile * kStride<kHeadDim>];
  float* const weights = &v_tile[kTile * kStride<kHeadDim>];
  const GroupRows rows{shape, static_cast<int>(blockIdx.y)};
  const int first_row = (gridDim.x - 1 - blockIdx.x) * kBlockRows;
  const int own_row = first_row + own_first_row();
  const std::size_t first_key_row = std::size_t(blockIdx.y) * shape.seq_len;

  load_queries<kHeadDim>(q_tile, q, rows, first_row);
  float4 output[kRows][kHeadDim / 64] = {};
  OnlineSoftmax<kRows> softmax;
  const int least_keys = keys_of_query(shape, rows.query(first_row));
  const int most_keys = keys_of_query(shape, rows.query(first_row + kBlockRows - 1));
  for (int first_key = 0; first_key < most_keys; first_key += kTile) {
    // Without it, keys and values overwrite some that others still multiply.
    __syncthreads();
    const std::size_t first = (first_key_row + first_key) * shape.head_dim;
    load_tile<kTile, kHeadDim>(k_tile, &k[first], shape.seq_len - first_key, shape.head_dim);
    load_tile<kTile, kHeadDim>(v_tile, &v[first], shape.seq_len - first_key, shape.head_dim);
    // Without it, a thread reads what another has not loaded yet.
    __syncthreads();
    float scores[kRows][kColumns] = {};
    multiply_transposed<kHeadDim>(scores, q_tile, k_tile);
    // The same for the whole block: some of its rows do not see the whole tile.
    if (first_key + kTile > least_keys) {
      mask(scores, first_key,
           [&](int r) { return keys_of_query(shape, rows.query(own_row + row_offset(r))); });
    }
    softmax.add(scores, output, shape.scale * kLog2E);
    store_weights(weights, scores);
    // The threads of a row are in one warp. Without it, one multiplies weights before another's stores.
    __syncwarp();
    multiply<kHeadDim>(output, weights, v_tile);
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = softmax.sum_of_row(r);
    const int row = own_row + row_offset(r);
    if (row < rows.count()) {
      const std::size_t place = rows.place(row);
      store_row(&o[place * shape.head_dim], output[r], 1.0F / sum, shape.head_dim);
      if (threadIdx.x % kAcross == 0) {
        stg(&lse[place], softmax.lse_of_row(r, sum));
      }
    }
  }
}

template <int kHeadDim>
void launch_flash_grouped(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  constexpr int kFloats =
      (kBlockRows + 2 * kTile) * kStride<kHeadDim> + kBlockRows * kStride<kTile>;
  launch(flash_grouped_kernel<kHeadDim>,
         {.name = "flash grouped",
          .grid = {.x = ceil_div(static_cast<std::size_t>(shape.seq_len) * shape.group, kBlockRows),
                   .y = static_cast<unsigned>(shape.batch * shape.kv_heads)},
          .block = {.x = kThreads},
          .shared_bytes = kFloats * sizeof(float),
          .queue = queue},
         problem.q, problem.k, problem.v, problem.o, problem.lse, shape);
}

}  // namespace

template <>
void flash_grouped<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_flash_grouped<64>(problem, queue);
  } else {
    launch_flash_grouped<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention
