// Rung 3: one pass over keys and values, and no matrix of scores.
//
// Idea:   a warp owns a row. Its query and its part of o lie in registers, D / 32 elements a lane. For
//         each key: a score (a sum over the warp), then the weight; when a larger score comes, what was
//         summed before shrinks by exp(old largest - new largest) (online softmax, Milakov and
//         Gimelshein 2018, arXiv 1805.02867; with the output, Rabe and Staats 2021, arXiv 2112.05682).
// Gain:   S^2 bytes vanish: memory holds inputs and outputs only. All loads are coalesced.
// Limit:  no reuse: each row loads every key and value that it sees, 4 S^2 D bytes a head from the
//         caches under the causal mask; and 5 shuffles for D / 32 multiply-adds.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

using namespace simt;

constexpr int kWarps = 4;  // rows of a block
constexpr int kWarpThreads = 32;

// kParts: elements of a row that each lane holds, 32 apart.
template <int kParts>
__global__ void online_kernel(const float* __restrict__ q, const float* __restrict__ k,
                              const float* __restrict__ v, float* __restrict__ o,
                              float* __restrict__ lse, Shape shape) {
  const int lane = threadIdx.x;
  const int query = blockIdx.x * kWarps + threadIdx.y;
  const int head = blockIdx.y;
  if (query >= shape.seq_len) {
    return;
  }
  const std::size_t row = std::size_t(head) * shape.seq_len + query;
  const std::size_t first_key = std::size_t(head / shape.group) * shape.seq_len * shape.head_dim;
  const float* key = &k[first_key];
  const float* value = &v[first_key];

  float own_query[kParts];
  float output[kParts] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int d = part * kWarpThreads + lane;
    own_query[part] = d < shape.head_dim ? ldg(&q[row * shape.head_dim + d]) * shape.scale : 0.0F;
  }
  float largest = -INFINITY;
  float sum = 0.0F;
  const int keys = shape.causal ? query + 1 : shape.seq_len;
  for (int j = 0; j < keys; ++j) {
    float score = 0.0F;
    float own_value[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int d = part * kWarpThreads + lane;
      const bool is_inside = d < shape.head_dim;
      score += is_inside ? own_query[part] * ldg(&key[d]) : 0.0F;
      own_value[part] = is_inside ? ldg(&value[d]) : 0.0F;
    }
    score = warp_sum(score);
    // All lanes have the same score: the same largest, and the same sum.
    const float before = largest;
    largest = fmaxf(largest, score);
    const float shrink = __expf(before - largest);
    const float weight = __expf(score - largest);
    sum = sum * shrink + weight;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      output[part] = output[part] * shrink + weight * own_value[part];
    }
    key += shape.head_dim;
    value += shape.head_dim;
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int d = part * kWarpThreads + lane;
    if (d < shape.head_dim) {
      stg(&o[row * shape.head_dim + d], output[part] / sum);
    }
  }
  if (lane == 0) {
    stg(&lse[row], largest + logf(sum));
  }
}

template <int kParts>
void launch_online(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  launch(online_kernel<kParts>,
         {.name = "online",
          .grid = {.x = ceil_div(shape.seq_len, kWarps), .y = static_cast<unsigned>(shape.heads())},
          .block = {.x = kWarpThreads, .y = kWarps},
          .queue = queue},
         problem.q, problem.k, problem.v, problem.o, problem.lse, shape);
}

}  // namespace

template <>
void online<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= kWarpThreads) {
    launch_online<1>(problem, queue);
  } else if (problem.shape.head_dim <= 2 * kWarpThreads) {
    launch_online<2>(problem, queue);
  } else {
    launch_online<kMostHeadDim / kWarpThreads>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention
