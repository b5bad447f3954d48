// Rung 1: a block for each head of queries.
//
// Idea:   three passes over a sequence: all scores into shared memory, a softmax over them, the sum
//         of values. A key's place comes from the table of pages.
// Cost:   keys and values are read once for each head of queries, also where several share them.
// Limit:  the same bytes `group` times; a block for each sequence and head, however long the
//         sequence; and its scores must fit into shared memory.

#include "kernels/ladders/attention/attention_decode/part.cuh"

namespace ultra::kernels::attention_decode {
namespace {

__global__ void __launch_bounds__(kThreads) block_per_head_kernel(const Problem problem) {
  const int head = blockIdx.y;
  const int sequence = blockIdx.x;
  const Part part = {sequence, head / problem.group, head, 0, ldg(&problem.lengths[sequence])};
  const std::size_t row = std::size_t(sequence) * gridDim.y + head;
  attend<1>(
      problem, part,
      [&](int, int column, float sum) {
        stg(&problem.o[row * problem.head_dim + column], __float2bfloat16(sum));
      },
      [](int, float) {});
}

}  // namespace

template <>
void block_per_head<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(block_per_head_kernel,
         {.name = "block_per_head",
          .grid = {.x = static_cast<unsigned>(problem.batch),
                   .y = static_cast<unsigned>(problem.kv_heads * problem.group)},
          .block = {.x = kThreads},
          .shared_bytes = shared_bytes<1>(problem.most_tokens),
          .queue = queue},
         problem);
}

}  // namespace ultra::kernels::attention_decode
