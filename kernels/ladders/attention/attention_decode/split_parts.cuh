#pragma once
/// @file
/// The first half of rung 3: each part of a sequence's keys by itself.

#include "kernels/ladders/attention/attention_decode/part.cuh"

namespace ultra::kernels::attention_decode {
namespace {

// Parts behind a sequence's end write nothing.
template <int kHeads>
__global__ void __launch_bounds__(kThreads) parts_kernel(const Problem problem) {
  const int sequence = blockIdx.x;
  const int kv_head = blockIdx.y;
  const int number = blockIdx.z;
  const int length = ldg(&problem.lengths[sequence]);
  const int first_key = number * kPart;
  if (branch(first_key >= length)) {
    return;
  }
  const int behind = first_key + kPart;
  const int first_head = kv_head * problem.group;
  const Part part = {sequence, kv_head, first_head, first_key, behind < length ? behind : length};
  const std::size_t row = std::size_t(sequence) * gridDim.y * problem.group + first_head;
  attend<kHeads>(
      problem, part,
      [&](int head, int column, float sum) {
        const std::size_t at = (row + head) * gridDim.z + number;
        stg(&problem.part_o[at * problem.head_dim + column], sum);
      },
      [&](int head, float lse) { stg(&problem.part_lse[(row + head) * gridDim.z + number], lse); });
}

template <int kHeads>
void launch_parts_of(const Problem& problem, const Queue& queue) {
  launch(parts_kernel<kHeads>,
         {.name = "parts",
          .grid = {.x = static_cast<unsigned>(problem.batch),
                   .y = static_cast<unsigned>(problem.kv_heads),
                   .z = static_cast<unsigned>(parts_of(problem.most_tokens))},
          .block = {.x = kThreads},
          .shared_bytes = shared_bytes<kHeads>(kPart),
          .queue = queue},
         problem);
}

/// @brief Writes part_o and part_lse: for each part that a sequence has, o and the logarithm of the
/// softmax's denominator as if its keys were all there are.
inline void launch_parts(const Problem& problem, const Queue& queue) {
  if (problem.group == 1) {
    launch_parts_of<1>(problem, queue);
  } else if (problem.group <= 4) {
    launch_parts_of<4>(problem, queue);
  } else {
    launch_parts_of<kMostGroup>(problem, queue);
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_decode
