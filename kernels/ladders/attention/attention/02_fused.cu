// Rung 2: the softmax without passes of its own.
//
// Idea:   one warp per row computes its scores and, while it has them in registers, the row's largest
//         and the sum of exponentials: each lane its own, in one pass (Milakov and Gimelshein 2018,
//         arXiv 1805.02867, algorithm 3), merged at the end. The output's kernel turns the stored
//         scores into weights, exp(score - lse), as it loads them. Keys above the diagonal are skipped.
// Gain:   the matrix is written once and read once: 8 S^2 bytes a head instead of 28 S^2, half of that
//         under the causal mask, and half the arithmetic.
// Limit:  the matrix itself: 4 S^2 bytes a head of space, and its traffic.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

using namespace simt;

constexpr int kWarps = 4;   // rows of a block of the scores
constexpr int kBlock = 16;  // threads in each direction of the output's blocks
constexpr int kWarpThreads = 32;

// One warp per row; lanes count keys.
__global__ void scores_kernel(const float* __restrict__ q, const float* __restrict__ k,
                              float* __restrict__ scores, float* __restrict__ lse, Shape shape) {
  const int lane = threadIdx.x;
  const int query = blockIdx.x * kWarps + threadIdx.y;
  const int head = blockIdx.y;
  if (query >= shape.seq_len) {
    return;
  }
  const std::size_t row = std::size_t(head) * shape.seq_len + query;
  const std::size_t first_key_row = std::size_t(head / shape.group) * shape.seq_len;
  const int keys = shape.causal ? query + 1 : shape.seq_len;
  float largest = -INFINITY;  // of this lane's keys
  float sum = 0.0F;           // of exp(score - largest) over them
  for (int j = lane; j < keys; j += kWarpThreads) {
    float score = 0.0F;
    for (int d = 0; d < shape.head_dim; ++d) {
      const float left = ldg(&q[row * shape.head_dim + d]);
      const float right = ldg(&k[(first_key_row + j) * shape.head_dim + d]);
      score += left * right;
    }
    score *= shape.scale;
    stg(&scores[row * shape.seq_len + j], score);
    const float before = largest;
    largest = fmaxf(largest, score);
    sum = sum * __expf(before - largest) + __expf(score - largest);
  }
  const float largest_of_row = warp_max(largest);
  // A lane without keys has the sum 0; exp(-inf) keeps it so.
  const float sum_of_row = warp_sum(sum * __expf(largest - largest_of_row));
  if (lane == 0) {
    stg(&lse[row], largest_of_row + logf(sum_of_row));
  }
}

// One thread per element of o; lanes count elements of a value.
__global__ void output_kernel(const float* __restrict__ scores, const float* __restrict__ lse,
                              const float* __restrict__ v, float* __restrict__ o, Shape shape) {
  const int d = blockIdx.x * kBlock + threadIdx.x;
  const int query = blockIdx.y * kBlock + threadIdx.y;
  const int head = blockIdx.z;
  if (branch(d >= shape.head_dim || query >= shape.seq_len)) {
    return;
  }
  const std::size_t row = std::size_t(head) * shape.seq_len + query;
  const std::size_t first_key_row = std::size_t(head / shape.group) * shape.seq_len;
  const int keys = shape.causal ? query + 1 : shape.seq_len;
  const float normaliser = ldg(&lse[row]);
  float sum = 0.0F;
  for (int j = 0; j < keys; ++j) {
    const float weight = __expf(ldg(&scores[row * shape.seq_len + j]) - normaliser);
    const float value = ldg(&v[(first_key_row + j) * shape.head_dim + d]);
    sum += weight * value;
  }
  stg(&o[row * shape.head_dim + d], sum);
}

}  // namespace

template <>
void fused<kExecutor>(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  const unsigned heads = static_cast<unsigned>(shape.heads());
  launch(scores_kernel,
         {.name = "scores and softmax",
          .grid = {.x = ceil_div(shape.seq_len, kWarps), .y = heads},
          .block = {.x = kWarpThreads, .y = kWarps},
          .queue = queue},
         problem.q, problem.k, problem.scores, problem.lse, shape);
  launch(output_kernel,
         {.name = "output",
          .grid = {.x = ceil_div(shape.head_dim, kBlock),
                   .y = ceil_div(shape.seq_len, kBlock),
                   .z = heads},
          .block = {.x = kBlock, .y = kBlock},
          .queue = queue},
         problem.scores, problem.lse, problem.v, problem.o, shape);
}

}  // namespace ultra::kernels::attention
