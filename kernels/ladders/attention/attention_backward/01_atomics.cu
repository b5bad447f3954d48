// Rung 1: a block owns a tile of keys and adds to every query's gradient.
//
// Idea:   the weights are computed again from lse. A block holds 64 keys and values, goes through all
//         queries that see them, of all heads of the group, and sums dk and dv in registers; its part of
//         dq goes to memory by atomics, because every block of keys has one.
// Cost:   five products per tile. dq is added to S / 64 times (half under the causal mask): an atomic per
//         element and tile of keys; the order of these additions, and so the last bits, differ from run
//         to run.
// Limit:  the atomics, and shared memory: six tiles, so one block on a multiprocessor.

#include "kernels/ladders/attention/attention_backward/backward_tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_backward {
namespace {

using namespace simt;
__global__ void zero_kernel(float* __restrict__ values, std::size_t count) {
  const std::size_t index = std::size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (branch(index < count)) {
    stg(&values[index], 0.0F);
  }
}

// Adds 4 rows of a thread to dq. The tile's row r is `rows[r * columns]`; there are `count` rows.
template <int kVectors>
__device__ __forceinline__ void add_atomically(float* rows, const float4 (&sums)[kRows][kVectors],
                                               int count, int columns) {
  const int own = attention::own_first_row();
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const int column = (threadIdx.x % kAcross + n * kAcross) * attention::kVector;
      if (own + r < count && column < columns) {
        float* const target = &rows[(own + r) * columns + column];
        atomicAdd(&target[0], sums[r][n].x);
        atomicAdd(&target[1], sums[r][n].y);
        atomicAdd(&target[2], sums[r][n].z);
        atomicAdd(&target[3], sums[r][n].w);
      }
    }
  }
}

// kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1) atomics_kernel(const Problem problem) {
  const KeyTiles<kHeadDim> tiles;
  sum_over_queries(problem, tiles, [&](std::size_t first_row, int rows) {
    float4 d_q[kRows][kHeadDim / 64] = {};
    attention::multiply<kHeadDim>(d_q, tiles.gradients, tiles.k);
    const int columns = problem.shape.head_dim;
    add_atomically(&problem.d_q[first_row * columns], d_q, rows, columns);
  });
}

template <int kHeadDim>
void launch_atomics(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  launch(atomics_kernel<kHeadDim>,
         {.name = "atomics",
          .grid = {.x = ceil_div(shape.seq_len, kTile),
                   .y = static_cast<unsigned>(shape.batch * shape.kv_heads)},
          .block = {.x = kThreads},
          .shared_bytes = KeyTiles<kHeadDim>::kBytes,
          .queue = queue},
         problem);
}

}  // namespace

template <>
void atomics<kExecutor>(const Problem& problem, const Queue& queue) {
  const std::size_t elements = problem.shape.rows() * problem.shape.head_dim;
  launch(zero_kernel,
         {.name = "zero",
          .grid = {.x = ceil_div(elements, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.d_q, elements);
  launch_delta(problem, queue);
  if (problem.shape.head_dim <= 64) {
    launch_atomics<64>(problem, queue);
  } else {
    launch_atomics<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_backward
