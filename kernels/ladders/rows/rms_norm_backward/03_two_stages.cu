// Rung 3: d_weight in two stages, each row read once, 16 bytes an access.
//
// Idea:   a block goes over every 264th row; a thread owns the same 8 columns in all of them. It
//         holds the row's d_y and x in registers until the row's sum is known, and adds to 8 sums
//         of d_weight that never leave its registers before the last row. A second kernel adds the
//         blocks' sums in a fixed order.
// Gain:   d_y and x are read once, d_x written once: 20 bytes per element become 12; no atomic, and
//         the same bits in every run. Extra: 2 x 264 x hidden floats, small beside rows x hidden.
// Limit:  memory; weight comes out of a cache for every row but the first.

#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/simt/block_reduce.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm_backward {
namespace {

using namespace simt;

// d_x of every gridDim.x-th row, and the sums of their d_weight.
template <typename T, int width>
__global__ void __launch_bounds__(1024, 1)
    rows_kernel(const T* __restrict__ d_y, const T* __restrict__ x, const T* __restrict__ weight,
                const float* __restrict__ reciprocal_rms, T* __restrict__ d_x,
                float* __restrict__ partial_d_weight, int rows, int hidden) {
  using Elements = Pack<T, width>;
  constexpr int kPacks = kElementsPerThread / width;
  __shared__ float warp_sums[2][kMostWarps];  // in turn, as block_sum() asks
  const int step = blockDim.x * width;
  const int start = threadIdx.x * width;
  float sums[kPacks][width] = {};

  for (int row = blockIdx.x, turn = 0; row < rows; row += gridDim.x, turn ^= 1) {
    const std::size_t first = static_cast<std::size_t>(row) * hidden + start;
    const float reciprocal = ldg(&reciprocal_rms[row]);
    float scaled[kPacks][width] = {};  // d_y weight
    Elements values[kPacks] = {};
    float dot = 0.0F;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (start + k * step < hidden) {
        const Elements d_out = ldg(reinterpret_cast<const Elements*>(&d_y[first + k * step]));
        values[k] = ldg(reinterpret_cast<const Elements*>(&x[first + k * step]));
        const Elements scale = ldg(reinterpret_cast<const Elements*>(&weight[start + k * step]));
#pragma unroll
        for (int i = 0; i < width; ++i) {
          const float gradient = static_cast<float>(d_out.values[i]);
          const float value = static_cast<float>(values[k].values[i]);
          sums[k][i] += gradient * value * reciprocal;
          scaled[k][i] = gradient * static_cast<float>(scale.values[i]);
          dot += scaled[k][i] * value;
        }
      }
    }
    const float total = block_sum(dot, warp_sums[turn]);
    const float mean = total * reciprocal * reciprocal / static_cast<float>(hidden);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        values[k].values[i] =
            T(reciprocal * (scaled[k][i] - static_cast<float>(values[k].values[i]) * mean));
      }
      if (start + k * step < hidden) {
        stg(reinterpret_cast<Elements*>(&d_x[first + k * step]), values[k]);
      }
    }
  }

  // A pack of floats is at most 16 bytes: two of them for eight elements of bf16.
  constexpr int kStored = width < 4 ? width : 4;
  using Floats = Pack<float, kStored>;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * hidden + start;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (start + k * step < hidden) {
#pragma unroll
      for (int i = 0; i < width; i += kStored) {
        Floats part;
#pragma unroll
        for (int j = 0; j < kStored; ++j) part.values[j] = sums[k][i + j];
        stg(reinterpret_cast<Floats*>(&partial_d_weight[first + k * step + i]), part);
      }
    }
  }
}

constexpr int kColumns = 32;  // of a block of columns_kernel: a warp reads neighbours
constexpr int kStrips = 8;    // its warps: each adds every 8th partial sum

// d_weight as the sum of its parts, down the columns.
__global__ void columns_kernel(const float* __restrict__ partial_d_weight,
                               float* __restrict__ d_weight, int partials, int hidden) {
  __shared__ float strip_sums[kStrips][kColumns];
  const int column = blockIdx.x * kColumns + threadIdx.x;
  float sum = 0.0F;
  if (branch(column < hidden)) {
    for (int part = threadIdx.y; part < partials; part += kStrips) {
      sum += ldg(&partial_d_weight[static_cast<std::size_t>(part) * hidden + column]);
    }
  }
  sts(&strip_sums[threadIdx.y][threadIdx.x], sum);
  __syncthreads();  // else warp 0 reads sums of strips that are still being added
  if (branch(threadIdx.y == 0 && column < hidden)) {
    sum = 0.0F;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      sum += lds(&strip_sums[strip][threadIdx.x]);
    }
    stg(&d_weight[column], sum);
  }
}

template <typename T, int width>
void launch_rows(const ProblemOf<T>& problem, const Queue& queue) {
  launch(rows_kernel<T, width>,
         {.name = "rows",
          .grid = {.x = static_cast<unsigned>(partials_of(problem.rows))},
          .block = {.x = 32 * ceil_div(problem.hidden, 32 * kElementsPerThread)},
          .queue = queue},
         problem.d_y, problem.x, problem.weight, problem.reciprocal_rms, problem.d_x,
         problem.partial_d_weight, problem.rows, problem.hidden);
}

template <typename T>
void launch_stages(const ProblemOf<T>& problem, const Queue& queue) {
  constexpr int kWidth = 16 / sizeof(T);
  if (problem.hidden % kWidth == 0) {
    launch_rows<T, kWidth>(problem, queue);
  } else {
    launch_rows<T, 1>(problem, queue);
  }
  launch(columns_kernel,
         {.name = "columns",
          .grid = {.x = ceil_div(problem.hidden, kColumns)},
          .block = {.x = kColumns, .y = kStrips},
          .queue = queue},
         problem.partial_d_weight, problem.d_weight, partials_of(problem.rows), problem.hidden);
}

}  // namespace

template <>
void two_stages<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_stages(problem, queue);
}

template <>
void two_stages_bf16<kExecutor>(const ProblemOf<bf16>& problem, const Queue& queue) {
  launch_stages(problem, queue);
}

}  // namespace ultra::kernels::rms_norm_backward
