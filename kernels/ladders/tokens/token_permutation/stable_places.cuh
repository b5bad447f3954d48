#pragma once
/// @file
/// Places by counting: of each expert, the slots in their order. Rungs 2 and 3.
///
/// A counting sort in three launches. 1. Each block counts its slots, by expert. 2. One block turns
/// the counts [experts, blocks] into their running sums: where each block's slots of each expert
/// begin.
/// 3. Each block counts once more and places.

#include "kernels/ladders/tokens/token_permutation/token_permutation.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::token_permutation {
namespace {

using namespace simt;

constexpr int kWarps = kSlotsOfBlock / 32;
constexpr int kExpertBits = 8;
static_assert(1 << kExpertBits == kMostExperts);

/// @brief How often each warp of the block has each expert.
using Counts = int[kWarps][kMostExperts];

// [region match]
/// @brief The lanes of the warp that have this lane's expert: those that agree in every bit. A
/// ballot says who has a bit; all lanes call it.
__device__ __forceinline__ unsigned lanes_with_same(int expert, bool is_valid) {
  unsigned same = __ballot_sync(kAllLanes, is_valid);
  for (int bit = 0; bit < kExpertBits; ++bit) {
    const bool is_one = (expert >> bit & 1) != 0;
    const unsigned ones = __ballot_sync(kAllLanes, is_one);
    same &= is_one ? ones : ~ones;
  }
  return same;
}
// [/region]

/// @brief Counts the block's slots; all its threads call it.
/// @return how many earlier lanes of the warp have this thread's expert. Behind the call, counts
/// are there for all.
__device__ __forceinline__ int count_slots(Counts& counts, int expert, bool is_valid) {
  const int warp = threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  for (int i = lane; i < kMostExperts; i += 32) {
    sts(&counts[warp][i], 0);
  }
  __syncwarp();  // else a zero overwrites a count
  const unsigned same = lanes_with_same(expert, is_valid);
  const int rank = __popc(same & ((1U << lane) - 1));
  if (is_valid && rank == 0) {
    sts(&counts[warp][expert], __popc(same));
  }
  __syncthreads();  // else a warp reads counts that others have not written
  return rank;
}

/// @brief This thread's slot, and its expert; 0 after the last slot.
struct Slot {
  /// @brief Its number.
  int number;
  /// @brief Whether there is one.
  bool is_valid;
  /// @brief Its expert.
  int expert;
};

__device__ __forceinline__ Slot slot_of_thread(const Problem& problem) {
  const int number = blockIdx.x * kSlotsOfBlock + threadIdx.x;
  const bool is_valid = number < problem.tokens * problem.top_k;
  return {number, is_valid, is_valid ? ldg(&problem.experts_of[number]) : 0};
}

__global__ void __launch_bounds__(kSlotsOfBlock) count_kernel(const Problem problem) {
  __shared__ Counts counts;
  const Slot slot = slot_of_thread(problem);
  count_slots(counts, slot.expert, slot.is_valid);
  const int expert = threadIdx.x;
  if (expert < problem.experts) {
    int sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      sum += lds(&counts[warp][expert]);
    }
    stg(&problem.scratch[expert * gridDim.x + blockIdx.x], sum);
  }
}

constexpr int kScanThreads = 1024;

/// @brief The sum of the threads' values before this one; all kScanThreads threads call it.
__device__ __forceinline__ int sum_before(int value, int (&warp_sums)[kScanThreads / 32]) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  int up_to = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(kAllLanes, up_to, distance);
    up_to += lane >= distance ? other : 0;
  }
  if (lane == 31) {
    sts(&warp_sums[warp], up_to);
  }
  __syncthreads();  // else a warp reads sums that others have not written
  const int of_lane = lane < warp ? lds(&warp_sums[lane]) : 0;
  return warp_sum(of_lane) + up_to - value;
}

__global__ void __launch_bounds__(kScanThreads) begin_kernel(const Problem problem, int blocks) {
  __shared__ int warp_sums[kScanThreads / 32];
  const int count = problem.experts * blocks;
  const int of_thread = (count + kScanThreads - 1) / kScanThreads;
  const int first = threadIdx.x * of_thread;
  const int last = first + of_thread < count ? first + of_thread : count;
  int sum = 0;
  for (int i = first; i < last; ++i) {
    sum += ldg(&problem.scratch[i]);
  }
  int before = sum_before(sum, warp_sums);
  for (int i = first; i < last; ++i) {
    const int own = ldg(&problem.scratch[i]);
    stg(&problem.scratch[i], before);
    if (i % blocks == 0) {
      stg(&problem.begins[i / blocks], before);
    }
    before += own;
  }
  if (threadIdx.x == kScanThreads - 1) {
    stg(&problem.begins[problem.experts], before);
  }
}

__global__ void __launch_bounds__(kSlotsOfBlock) place_kernel(const Problem problem) {
  __shared__ Counts counts;
  const Slot slot = slot_of_thread(problem);
  const int rank = count_slots(counts, slot.expert, slot.is_valid);
  if (slot.is_valid) {
    int place = rank + ldg(&problem.scratch[slot.expert * gridDim.x + blockIdx.x]);
    for (int warp = 0; warp < static_cast<int>(threadIdx.x) / 32; ++warp) {
      place += lds(&counts[warp][slot.expert]);
    }
    stg(&problem.place[slot.number], place);
  }
}

/// @brief Fills begins and place.
inline void place_stably(const Problem& problem, const Queue& queue) {
  const unsigned blocks = ceil_div(problem.tokens * problem.top_k, kSlotsOfBlock);
  const Extents block{.x = kSlotsOfBlock};
  launch(count_kernel, {.name = "count", .grid = {.x = blocks}, .block = block, .queue = queue},
         problem);
  launch(begin_kernel, {.name = "begin", .block = {.x = kScanThreads}, .queue = queue}, problem,
         static_cast<int>(blocks));
  launch(place_kernel, {.name = "place", .grid = {.x = blocks}, .block = block, .queue = queue},
         problem);
}

}  // namespace
}  // namespace ultra::kernels::token_permutation
