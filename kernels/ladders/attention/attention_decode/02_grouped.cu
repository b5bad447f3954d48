// Rung 2: a block for all heads that share keys and values.
//
// Idea:   a key that is in registers meets the queries of all heads that share it.
// Gain:   keys and values are read once.
// Limit:  a block for each sequence and head of keys: one sequence with 8 such heads keeps 8 of 132
//         multiprocessors busy, whatever its length.

#include "kernels/ladders/attention/attention_decode/part.cuh"

namespace ultra::kernels::attention_decode {
namespace {

template <int kHeads>
__global__ void __launch_bounds__(kThreads) grouped_kernel(const Problem problem) {
  const int sequence = blockIdx.x;
  const int kv_head = blockIdx.y;
  const int first_head = kv_head * problem.group;
  const Part part = {sequence, kv_head, first_head, 0, ldg(&problem.lengths[sequence])};
  const std::size_t row = std::size_t(sequence) * gridDim.y * problem.group + first_head;
  attend<kHeads>(
      problem, part,
      [&](int head, int column, float sum) {
        stg(&problem.o[(row + head) * problem.head_dim + column], __float2bfloat16(sum));
      },
      [](int, float) {});
}

template <int kHeads>
void launch_grouped(const Problem& problem, const Queue& queue) {
  launch(grouped_kernel<kHeads>,
         {.name = "grouped",
          .grid = {.x = static_cast<unsigned>(problem.batch),
                   .y = static_cast<unsigned>(problem.kv_heads)},
          .block = {.x = kThreads},
          .shared_bytes = shared_bytes<kHeads>(problem.most_tokens),
          .queue = queue},
         problem);
}

}  // namespace

template <>
void grouped<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.group == 1) {
    launch_grouped<1>(problem, queue);
  } else if (problem.group <= 4) {
    launch_grouped<4>(problem, queue);
  } else {
    launch_grouped<kMostGroup>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_decode
