// Rung 2: a thread per sequence, sorted.
//
// Idea:   threads take the sequences in the order of their lengths, which a table gives. Lanes of a
//         warp then have nearly equal loops. The longest come first: a long loop that begins last
//         is what a whole GPU waits for.
// Gain:   idle lanes nearly vanish.
// Limit:  the lanes still read 32 different sequences; now even sequences that lie apart. The loop
//         of the longest sequence is one thread's.

#include "kernels/ladders/tokens/packed_sequences/packed_sequences.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::packed_sequences {
namespace {

using namespace simt;

constexpr int kThreads = 128;

__global__ void sorted_by_length_kernel(const int* __restrict__ begins,
                                        const int* __restrict__ by_length,
                                        const float* __restrict__ losses, float* __restrict__ means,
                                        int sequences) {
  const int place = blockIdx.x * kThreads + threadIdx.x;
  if (branch(place >= sequences)) {
    return;
  }
  const int sequence = ldg(&by_length[place]);
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
void sorted_by_length<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(sorted_by_length_kernel,
         {.name = "sorted_by_length",
          .grid = {.x = ceil_div(problem.sequences, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.begins, problem.by_length, problem.losses, problem.means, problem.sequences);
}

}  // namespace ultra::kernels::packed_sequences
