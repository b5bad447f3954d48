// Rung 1: slots draw their places by atomic additions.
//
// Idea:   count each expert's slots, sum up where each expert begins, then let each slot draw the
//         next place of its expert. A thread copies one element.
// Cost:   two atomic additions per slot, most of them to the few words of the popular experts,
//         which take them one after the other. Each token is read top_k times, 2 bytes a lane.
// Limit:  the order of an expert's tokens is another in every run, and with it the order of sums
//         over them: the gradient of the expert's weights has other bits.

#include "kernels/ladders/tokens/token_permutation/copy_slots.cuh"

namespace ultra::kernels::token_permutation {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void clear_kernel(int* counts, int experts) {
  if (branch(static_cast<int>(threadIdx.x) < experts)) {
    stg(&counts[threadIdx.x], 0);
  }
}

__global__ void count_atomics_kernel(const int* __restrict__ experts_of, int* counts, int slots) {
  const int slot = blockIdx.x * kThreads + threadIdx.x;
  if (branch(slot < slots)) {
    const int expert = ldg(&experts_of[slot]);
    atomicAdd(&counts[expert], 1);
  }
}

// One thread: experts are few. The counts become the next free places.
__global__ void sum_kernel(int* counts, int* begins, int experts) {
  int before = 0;
  for (int expert = 0; expert < experts; ++expert) {
    const int own = ldg(&counts[expert]);
    stg(&begins[expert], before);
    stg(&counts[expert], before);
    before += own;
  }
  stg(&begins[experts], before);
}

__global__ void draw_kernel(const int* __restrict__ experts_of, int* next, int* place, int slots) {
  const int slot = blockIdx.x * kThreads + threadIdx.x;
  if (branch(slot < slots)) {
    const int expert = ldg(&experts_of[slot]);
    const int drawn = atomicAdd(&next[expert], 1);
    stg(&place[slot], drawn);
  }
}

}  // namespace

template <>
void atomics<kExecutor>(const Problem& problem, const Queue& queue) {
  const int slots = problem.tokens * problem.top_k;
  const Extents grid{.x = ceil_div(slots, kThreads)};
  launch(clear_kernel, {.name = "clear", .block = {.x = kMostExperts}, .queue = queue},
         problem.scratch, problem.experts);
  launch(count_atomics_kernel,
         {.name = "count_atomics", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.experts_of, problem.scratch, slots);
  launch(sum_kernel, {.name = "sum", .block = {.x = 1}, .queue = queue}, problem.scratch,
         problem.begins, problem.experts);
  launch(draw_kernel, {.name = "draw", .grid = grid, .block = {.x = kThreads}, .queue = queue},
         problem.experts_of, problem.scratch, problem.place, slots);
  copy_slots(problem, queue);
}

}  // namespace ultra::kernels::token_permutation
