// Rung 4: the block holds its row in shared memory.
//
// Idea:   a row of up to 57,856 floats fits the 227 KiB that an H100 gives a block. The row is
//         copied there while its maximum and sum are built; the gradients are made from the copy.
//         Each thread reads back what it wrote itself: the copy needs no barrier.
//         Long rows leave room for one block on a multiprocessor anyway: told so, the compiler
//         takes the registers of two, and has four loads of a thread under way instead of two.
// Gain:   12 bytes requested per element become 8, the least: the logits leave memory once,
//         whatever the caches hold.
// Limit:  one block at a time on a multiprocessor, which loads nothing while it computes: whether
//         that is faster than rung 3's second read out of a cache is for a measurement to say.
//         Longer rows need several multiprocessors (a cluster) to share one.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "kernels/ladders/rows/cross_entropy/online_sum.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::cross_entropy {
namespace {

using namespace simt;

constexpr int kMostThreadsOfRow = 1024;

template <int width>
__global__ void __launch_bounds__(kMostThreadsOfRow, 1)
    in_shared_kernel(const int* __restrict__ targets, float* __restrict__ logits,
                     float* __restrict__ losses, int vocab, float scale) {
  using Floats = Pack<float, width>;
  __shared__ float of_warps[kFloatsOfMerge];
  float* const held = dynamic_shared<float>();  // (vocab)
  float* const row = logits + static_cast<std::size_t>(blockIdx.x) * vocab;
  const int start = threadIdx.x * width;
  const int step = blockDim.x * width;

  // 1. The copy, and the thread's sum.
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
      if (base + k * step < vocab) {
        sts(reinterpret_cast<Floats*>(&held[base + k * step]), some[k]);
      }
      mine = add(mine, some[k]);
    }
  }

  // 2. The row's sum. The barrier inside also ends the copy: thread 0 may read another's part.
  const OnlineSum all = merge_block(mine, of_warps);
  const float log_sum = all.highest + logf(all.sum);
  const int target = ldg(&targets[blockIdx.x]);
  if (branch(threadIdx.x == 0)) {
    const float of_target = lds(&held[target]);
    stg(&losses[blockIdx.x], log_sum - of_target);
  }

  // 3. The gradients, of what the thread copied.
  for (int column = start; column < vocab; column += step) {
    Floats some = lds(reinterpret_cast<const Floats*>(&held[column]));
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float one_hot = column + i == target ? 1.0F : 0.0F;
      some.values[i] = (expf(some.values[i] - log_sum) - one_hot) * scale;
    }
    stg(reinterpret_cast<Floats*>(&row[column]), some);
  }
}

template <int width>
void launch_width(const Problem& problem, const Queue& queue) {
  const unsigned warps = ceil_div(problem.vocab, 32 * width);
  launch(in_shared_kernel<width>,
         {.name = "in_shared",
          .grid = {.x = static_cast<unsigned>(problem.tokens)},
          .block = {.x = warps * 32 < kMostThreadsOfRow ? warps * 32 : kMostThreadsOfRow},
          .shared_bytes = static_cast<std::size_t>(problem.vocab) * sizeof(float),
          .queue = queue},
         problem.targets, problem.logits, problem.losses, problem.vocab, problem.scale);
}

}  // namespace

template <>
void in_shared<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.vocab)) {
    launch_width<4>(problem, queue);
  } else {
    launch_width<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::cross_entropy
