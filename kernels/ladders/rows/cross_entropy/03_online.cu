// Rung 3: one kernel, a block per row, 16 bytes an access.
//
// Idea:   maximum and sum in one pass: when a larger logit comes, the sum so far is scaled down to
//         it. The threads' sums are merged the same way, and the block, which now knows its row's
//         log_sum, turns the row into gradients at once, while it is still in a cache.
// Gain:   16 bytes per element become 12 (two reads, one write), of which the second read need not
//         come from memory: a row of 32,000 is 128 KB. A quarter of the requests; one launch.
// Limit:  memory, or the second-level cache, by the second read. Where 4 does not divide the
//         vocabulary, rows are misaligned and moved float by float: pad the vocabulary instead.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "kernels/ladders/rows/cross_entropy/online_sum.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::cross_entropy {
namespace {

using namespace simt;

constexpr int kMostThreads = 512;

template <int width>
__global__ void __launch_bounds__(kMostThreads)
    online_kernel(const int* __restrict__ targets, float* __restrict__ logits,
                  float* __restrict__ losses, int vocab, float scale) {
  using Floats = Pack<float, width>;
  __shared__ float of_warps[kFloatsOfMerge];
  float* const row = logits + static_cast<std::size_t>(blockIdx.x) * vocab;
  const int start = threadIdx.x * width;
  const int step = blockDim.x * width;

  // 1. The thread's sum, rescaled once per access, not per logit.
  OnlineSum mine = nothing();
  for (int base = start; base < vocab; base += kAtOnce * step) {
    Floats some[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int column = base + k * step;
      some[k] =
          column < vocab ? ldg(reinterpret_cast<const Floats*>(&row[column])) : masked<width>();
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      mine = add(mine, some[k]);
    }
  }

  // 2. The row's. Its target's logit is read before anybody overwrites it: the barrier inside.
  const int target = ldg(&targets[blockIdx.x]);
  const float of_target = threadIdx.x == 0 ? ldg(&row[target]) : 0.0F;
  const OnlineSum all = merge_block(mine, of_warps);
  const float log_sum = all.highest + logf(all.sum);
  if (branch(threadIdx.x == 0)) {
    stg(&losses[blockIdx.x], log_sum - of_target);
  }

  // 3. The gradients.
  for (int base = start; base < vocab; base += kAtOnce * step) {
    Floats some[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int column = base + k * step;
      some[k] =
          column < vocab ? ldg(reinterpret_cast<const Floats*>(&row[column])) : masked<width>();
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int column = base + k * step;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const float one_hot = column + i == target ? 1.0F : 0.0F;
        some[k].values[i] = (expf(some[k].values[i] - log_sum) - one_hot) * scale;
      }
      if (column < vocab) {
        stg(reinterpret_cast<Floats*>(&row[column]), some[k]);
      }
    }
  }
}

template <int width>
void launch_width(const Problem& problem, const Queue& queue) {
  const unsigned warps = ceil_div(problem.vocab, 32 * width);
  launch(online_kernel<width>,
         {.name = "online",
          .grid = {.x = static_cast<unsigned>(problem.tokens)},
          .block = {.x = warps * 32 < kMostThreads ? warps * 32 : kMostThreads},
          .queue = queue},
         problem.targets, problem.logits, problem.losses, problem.vocab, problem.scale);
}

}  // namespace

template <>
void online<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.vocab)) {
    launch_width<4>(problem, queue);
  } else {
    launch_width<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::cross_entropy
