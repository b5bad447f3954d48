// Rung 1: a thread per sequence.
//
// Idea:   each thread runs along its own sequence.
// Cost:   a warp's loop runs as often as its longest sequence has tokens; lanes that are done wait.
//         The lanes that run read 32 different places: a sector each.
// Limit:  idle lanes, and sectors of which 4 bytes in 32 are used at a time.

#include "kernels/ladders/tokens/packed_sequences/packed_sequences.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::packed_sequences {
namespace {

using namespace simt;

constexpr int kThreads = 128;

__global__ void thread_per_sequence_kernel(const int* __restrict__ begins,
                                           const float* __restrict__ losses,
                                           float* __restrict__ means, int sequences) {
  const int sequence = blockIdx.x * kThreads + threadIdx.x;
  if (branch(sequence >= sequences)) {
    return;
  }
  const int begin = ldg(&begins[sequence]);
  const int end = ldg(&begins[sequence + 1]);
  float sum = 0.0F;
  for (int i = begin; branch(i < end); ++i) {
    sum += ldg(&losses[i]);
  }
  stg(&means[sequence], sum / static_cast<float>(end - begin));
}

}  // namespace

template <>
void thread_per_sequence<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(thread_per_sequence_kernel,
         {.name = "thread_per_sequence",
          .grid = {.x = ceil_div(problem.sequences, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.begins, problem.losses, problem.means, problem.sequences);
}

}  // namespace ultra::kernels::packed_sequences
