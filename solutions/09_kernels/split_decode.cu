// Rung 3 of attention_decode: a block for each part of a sequence.
//
// Idea:   parts of 256 keys are attended to by themselves, each by a block. A part's output is right
//         for its own softmax; the parts' outputs are averaged, each with the share that its
//         exponentials have of all: exp(lse of the part - lse of all).
// Gain:   as many blocks as the caches have parts, from a single sequence on.
// Limit:  memory: each key and value is read once. What the parts write and read is 1/256 of that
//         for each head of queries, times two for fp32.
// Source: Dao et al. 2023, "Flash-Decoding for long-context inference".

#include <cmath>

#include "kernels/ladders/attention/attention_decode/split_parts.cuh"

namespace ultra::kernels::attention_decode {
namespace {

// A block for each head of a sequence, a thread for each column.
__global__ void __launch_bounds__(kMostHeadDim) combine_kernel(const Problem problem) {
  const int sequence = blockIdx.x;
  const int head = blockIdx.y;
  const int column = threadIdx.x;
  const int most_parts = count_parts(problem.most_tokens);
  const int parts = count_parts(ldg(&problem.lengths[sequence]));
  const std::size_t row = std::size_t(sequence) * gridDim.y + head;
  const float* const lses = problem.part_lse + row * most_parts;
  float largest = -INFINITY;
  for (int part = 0; part < parts; ++part) {
    largest = fmaxf(largest, ldg(&lses[part]));
  }
  float total = 0.0F;
  float sum = 0.0F;
  for (int part = 0; part < parts; ++part) {
    const float weight = expf(ldg(&lses[part]) - largest);
    total += weight;
    if (column < problem.head_dim) {
      const std::size_t at = (row * most_parts + part) * problem.head_dim + column;
      const float own = ldg(&problem.part_o[at]);
      sum += weight * own;
    }
  }
  if (column < problem.head_dim) {
    stg(&problem.o[row * problem.head_dim + column], __float2bfloat16(sum / total));
  }
}

}  // namespace

template <>
void split<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_parts(problem, queue);
  launch(combine_kernel,
         {.name = "combine",
          .grid = {.x = static_cast<unsigned>(problem.batch),
                   .y = static_cast<unsigned>(problem.kv_heads * problem.group)},
          .block = {.x = kMostHeadDim},
          .queue = queue},
         problem);
}

}  // namespace ultra::kernels::attention_decode
