// Rung 1: attention as its formula stands, a kernel for each of its three steps.
//
// Idea:   scores = scale q k^T, then the softmax of each row, then o = p v.
// Cost:   the S x S matrix of every head goes through memory: written by the scores, read three times and
//         rewritten twice by the softmax, whose threads run along rows (32 sectors a request), read by
//         the output. Masked elements cost as much as others.
// Limit:  memory, in space (4 S^2 bytes a head) and in traffic: 28 S^2 bytes a head against 16 S D for
//         inputs and outputs.

#include <cmath>

#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention {
namespace {

using namespace simt;

constexpr int kBlock = 16;      // threads in each direction: scores and output
constexpr int kRowBlock = 128;  // threads of the softmax, one per row

// One thread per score; lanes count keys.
__global__ void scores_kernel(const float* __restrict__ q, const float* __restrict__ k,
                              float* __restrict__ scores, Shape shape) {
  const int key = blockIdx.x * kBlock + threadIdx.x;
  const int query = blockIdx.y * kBlock + threadIdx.y;
  const int head = blockIdx.z;
  if (branch(key >= shape.seq_len || query >= shape.seq_len)) {
    return;
  }
  const std::size_t row = std::size_t(head) * shape.seq_len + query;
  const std::size_t key_row = std::size_t(head / shape.group) * shape.seq_len + key;
  float sum = 0.0F;
  for (int d = 0; d < shape.head_dim; ++d) {
    const float left = ldg(&q[row * shape.head_dim + d]);
    const float right = ldg(&k[key_row * shape.head_dim + d]);
    sum += left * right;
  }
  const bool is_masked = shape.causal && key > query;
  stg(&scores[row * shape.seq_len + key], is_masked ? -INFINITY : sum * shape.scale);
}

// One thread per row: its largest score, its sum, its weights.
__global__ void softmax_kernel(float* __restrict__ scores, float* __restrict__ lse,
                               std::size_t rows, int seq_len) {
  const std::size_t row = std::size_t(blockIdx.x) * kRowBlock + threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  float* const of_row = &scores[row * seq_len];
  float largest = -INFINITY;
  for (int j = 0; j < seq_len; ++j) {
    largest = fmaxf(largest, ldg(&of_row[j]));
  }
  float sum = 0.0F;
  for (int j = 0; j < seq_len; ++j) {
    const float weight = __expf(ldg(&of_row[j]) - largest);
    sum += weight;
    stg(&of_row[j], weight);
  }
  for (int j = 0; j < seq_len; ++j) {
    const float weight = ldg(&of_row[j]);
    stg(&of_row[j], weight / sum);
  }
  stg(&lse[row], largest + logf(sum));
}

// One thread per element of o; lanes count elements of a value.
__global__ void output_kernel(const float* __restrict__ weights, const float* __restrict__ v,
                              float* __restrict__ o, Shape shape) {
  const int d = blockIdx.x * kBlock + threadIdx.x;
  const int query = blockIdx.y * kBlock + threadIdx.y;
  const int head = blockIdx.z;
  if (branch(d >= shape.head_dim || query >= shape.seq_len)) {
    return;
  }
  const std::size_t row = std::size_t(head) * shape.seq_len + query;
  const std::size_t first_key_row = std::size_t(head / shape.group) * shape.seq_len;
  float sum = 0.0F;
  for (int j = 0; j < shape.seq_len; ++j) {
    const float weight = ldg(&weights[row * shape.seq_len + j]);
    const float value = ldg(&v[(first_key_row + j) * shape.head_dim + d]);
    sum += weight * value;
  }
  stg(&o[row * shape.head_dim + d], sum);
}

}  // namespace

template <>
void naive<kExecutor>(const Problem& problem, const Queue& queue) {
  const Shape& shape = problem.shape;
  const unsigned heads = static_cast<unsigned>(shape.heads());
  const unsigned tiles = ceil_div(shape.seq_len, kBlock);
  launch(scores_kernel,
         {.name = "scores",
          .grid = {.x = tiles, .y = tiles, .z = heads},
          .block = {.x = kBlock, .y = kBlock},
          .queue = queue},
         problem.q, problem.k, problem.scores, shape);
  launch(softmax_kernel,
         {.name = "softmax",
          .grid = {.x = ceil_div(shape.rows(), kRowBlock)},
          .block = {.x = kRowBlock},
          .queue = queue},
         problem.scores, problem.lse, shape.rows(), shape.seq_len);
  launch(output_kernel,
         {.name = "output",
          .grid = {.x = ceil_div(shape.head_dim, kBlock), .y = tiles, .z = heads},
          .block = {.x = kBlock, .y = kBlock},
          .queue = queue},
         problem.scores, problem.v, problem.o, shape);
}

}  // namespace ultra::kernels::attention
