// Rung 3: the same with accesses of 16 bytes.
//
// Idea:   a lane moves four neighbouring floats in one instruction, in the addition and in the
//         norm.
// Gain:   a quarter of the requests, 16 sectors each; four times the bytes in flight per warp.
// Limit:  the row is read twice. Rows whose length is no multiple of 4 do not begin at a multiple
//         of 16 bytes, and are moved float by float as before.

#include "kernels/ladders/rows/rms_norm/add.cuh"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rms_norm {
namespace {

using namespace simt;

constexpr int kRowsPerBlock = 4;  // a warp each

template <int width>
__global__ void vectorised_kernel(const float* __restrict__ h, const float* __restrict__ weight,
                                  float* __restrict__ y, float* __restrict__ reciprocal_rms,
                                  int rows, int hidden, float epsilon) {
  using Floats = Pack<float, width>;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (branch(row >= rows)) {
    return;  // a whole warp: the shuffles below have all lanes
  }
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  float squares = 0.0F;
  for (int column = lane * width; column < hidden; column += 32 * width) {
    const Floats some = ldg(reinterpret_cast<const Floats*>(&h[first + column]));
#pragma unroll
    for (int i = 0; i < width; ++i) {
      squares += some.values[i] * some.values[i];
    }
  }
  const float reciprocal = rsqrtf(warp_sum(squares) / static_cast<float>(hidden) + epsilon);
  if (branch(lane == 0)) {
    stg(&reciprocal_rms[row], reciprocal);
  }
  for (int column = lane * width; column < hidden; column += 32 * width) {
    Floats some = ldg(reinterpret_cast<const Floats*>(&h[first + column]));
    const Floats scale = ldg(reinterpret_cast<const Floats*>(&weight[column]));
#pragma unroll
    for (int i = 0; i < width; ++i) {
      some.values[i] *= reciprocal * scale.values[i];
    }
    stg(reinterpret_cast<Floats*>(&y[first + column]), some);
  }
}

template <int width>
void launch_width(const Problem& problem, const Queue& queue) {
  add<width>(problem, queue);
  launch(vectorised_kernel<width>,
         {.name = "vectorised",
          .grid = {.x = ceil_div(problem.rows, kRowsPerBlock)},
          .block = {.x = 32 * kRowsPerBlock},
          .queue = queue},
         problem.h, problem.weight, problem.y, problem.reciprocal_rms, problem.rows, problem.hidden,
         problem.epsilon);
}

}  // namespace

template <>
void vectorised<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.hidden)) {
    launch_width<4>(problem, queue);
  } else {
    launch_width<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::rms_norm
