// Rung 3: a warp per sequence.
//
// Idea:   the lanes share one sequence: lane l takes its tokens l, l + 32, ... All lanes have the
//         same loop but for its last round, and read neighbours.
// Gain:   sectors per request 32 -> 4 or 5 (a sequence may begin anywhere); loops are 32 times
//         shorter. No table of lengths is needed.
// Limit:  a sequence of fewer than 32 tokens leaves lanes idle, and a load is 4 bytes per lane.

#include "kernels/ladders/tokens/packed_sequences/packed_sequences.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::packed_sequences {
namespace {

using namespace simt;

constexpr int kWarps = 4;  // of a block

__global__ void warp_per_sequence_kernel(const int* __restrict__ begins,
                                         const float* __restrict__ losses,
                                         float* __restrict__ means, int sequences) {
  const int sequence = blockIdx.x * kWarps + threadIdx.y;
  const int lane = threadIdx.x;
  if (branch(sequence >= sequences)) {
    return;
  }
  const int begin = ldg(&begins[sequence]);
  const int end = ldg(&begins[sequence + 1]);
  float sum = 0.0F;
  for (int i = begin + lane; branch(i < end); i += 32) {
    sum += ldg(&losses[i]);
  }
  sum = warp_sum(sum);
  if (lane == 0) {
    stg(&means[sequence], sum / static_cast<float>(end - begin));
  }
}

}  // namespace

template <>
void warp_per_sequence<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(warp_per_sequence_kernel,
         {.name = "warp_per_sequence",
          .grid = {.x = ceil_div(problem.sequences, kWarps)},
          .block = {.x = 32, .y = kWarps},
          .queue = queue},
         problem.begins, problem.losses, problem.means, problem.sequences);
}

}  // namespace ultra::kernels::packed_sequences
