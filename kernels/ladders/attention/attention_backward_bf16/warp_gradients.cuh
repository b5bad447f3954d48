#pragma once
/// @file
/// What both kernels of attention's backward pass in bf16 need: delta, their shared memory, and the store
/// of a warp's rows.

#include "kernels/ladders/attention/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/ladders/attention/attention_bf16/background_copies.cuh"
#include "kernels/ladders/attention/attention_bf16/swizzled_tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

constexpr int kRows = 128;                        // of a block, 16 of each warp
constexpr int kThreads = kRows / 16 * 32;         // of a block
constexpr float kLog2E = attention_bf16::kLog2E;  // log2(e)

// Columns of a tile of scores. The keys' kernel has two sums of kHeadDim columns in its registers.
template <int kHeadDim>
constexpr int kColumns = kHeadDim <= 64 ? 64 : 32;

template <int kHeadDim>
using Scores = attention_bf16::Scores<1, kColumns<kHeadDim>>;
template <int kHeadDim>
using Weights = attention_bf16::Weights<1, kColumns<kHeadDim>>;
template <int kHeadDim>
using Sums = float[1][kHeadDim / 8][4];

// The shared memory of a block: two tensors' rows, and two stages of two tensors' columns.
template <int kHeadDim, typename T>
struct Tiles {
  static constexpr int kRowTile = kRows * kHeadDim;
  static constexpr int kColumnTile = kColumns<kHeadDim> * kHeadDim;
  static constexpr std::size_t kBytes = (2 * kRowTile + 4 * kColumnTile) * sizeof(T);

  T* storage = simt::dynamic_shared<T>();

  [[nodiscard]] __device__ __forceinline__ T* rows(int tensor) const {
    return &storage[tensor * kRowTile];
  }
  [[nodiscard]] __device__ __forceinline__ T* columns(int stage, int tensor) const {
    return &storage[2 * kRowTile + (2 * stage + tensor) * kColumnTile];
  }
};

// Two neighbours of a row.
__device__ __forceinline__ simt::Pack<float, 2> pair_at(const float* row, int column) {
  return simt::ldg(reinterpret_cast<const simt::Pack<float, 2>*>(&row[column]));
}
template <typename T>
__device__ __forceinline__ simt::Pack<float, 2> pair_at(const T* row, int column) {
  const float2 pair =
      simt::unpack_pair<T>(simt::ldg(reinterpret_cast<const unsigned*>(&row[column])));
  return {pair.x, pair.y};
}

// delta = rowsum(d_o * o): a warp per row, the lanes two elements apart.
template <typename Output, typename T>
__global__ void delta_kernel(const Output* __restrict__ o, const T* __restrict__ d_o,
                             float* __restrict__ delta, const attention::Shape shape) {
  const int token = static_cast<int>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32);
  if (token >= shape.seq_len) {
    return;
  }
  const attention_bf16::Rows rows{shape.seq_len, 0};
  const std::size_t first = rows.element(shape, shape.kv_heads * shape.group, blockIdx.y, token);
  const int lane = threadIdx.x % 32;
  float sum = 0.0F;
  for (int d = 2 * lane; d < shape.head_dim; d += 64) {
    const simt::Pack<float, 2> output = pair_at(&o[first], d);
    const simt::Pack<float, 2> gradient = pair_at(&d_o[first], d);
    sum += output.values[0] * gradient.values[0] + output.values[1] * gradient.values[1];
  }
  sum = simt::warp_sum(sum);
  if (lane == 0) {
    simt::stg(&delta[rows.first_of(blockIdx.y) + token], sum);
  }
}

template <typename T>
void launch_delta(const ProblemOf<T>& problem, const simt::Queue& queue) {
  const attention::Shape& shape = problem.shape;
  const simt::Config config = {
      .name = "delta",
      .grid = {.x = simt::ceil_div(static_cast<std::size_t>(shape.seq_len), kThreads / 32),
               .y = static_cast<unsigned>(shape.heads())},
      .block = {.x = kThreads},
      .queue = queue};
  if (problem.wide_o != nullptr) {
    simt::launch(delta_kernel<float, T>, config, problem.wide_o, problem.d_o, problem.delta, shape);
  } else {
    simt::launch(delta_kernel<T, T>, config, problem.o, problem.d_o, problem.delta, shape);
  }
}

// Turns gradients of weights into those of scores, without the scale.
__device__ __forceinline__ float gradient_of(float weight, float gradient, float delta) {
  return weight * (gradient - delta);
}

// Stores 16 rows of a warp, `stride` elements apart, two elements at once. `rows`: of the block until the
// sequence's end.
template <int kHeadDim, typename T>
__device__ __forceinline__ void store_rows(T* target, const Sums<kHeadDim>& sums, float factor,
                                           int rows, int columns, int stride) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = attention_bf16::first_warp_row<1>() + attention_bf16::lane_group() + half * 8;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      if (row < rows && n * 8 < columns) {
        attention_bf16::store_pair(
            &target[row * stride + n * 8 + 2 * attention_bf16::lane_in_group()],
            sums[0][n][2 * half] * factor, sums[0][n][2 * half + 1] * factor);
      }
    }
  }
}

// The same where there is room for fp32, or else for two bytes.
template <int kHeadDim, typename T>
__device__ __forceinline__ void store_rows(T* narrow, float* wide, std::size_t place,
                                           const Sums<kHeadDim>& sums, float factor, int rows,
                                           int columns, int stride) {
  if (wide != nullptr) {
    store_rows<kHeadDim>(&wide[place], sums, factor, rows, columns, stride);
  } else {
    store_rows<kHeadDim>(&narrow[place], sums, factor, rows, columns, stride);
  }
}

// What a lane needs of a query: lse times log2(e), or delta.
__device__ __forceinline__ float statistic(const float* __restrict__ values, int first, int query,
                                           int seq_len) {
  return query < seq_len ? simt::ldg(&values[first + query]) : 0.0F;
}

}  // namespace
}  // namespace ultra::kernels::attention_backward_bf16
