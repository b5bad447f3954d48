#pragma once
/// @file
/// The copy of rungs 1 and 2: a thread for each element of the result.

#include "kernels/ladders/tokens/token_permutation/token_permutation.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::token_permutation {
namespace {

constexpr int kCopyThreads = 256;

__global__ void copy_slots_kernel(const Problem problem) {
  const int slot = blockIdx.x;
  const int column = blockIdx.y * kCopyThreads + threadIdx.x;
  if (simt::branch(column < problem.hidden)) {
    const std::size_t token = slot / problem.top_k;
    const std::size_t place = simt::ldg(&problem.place[slot]);
    const simt::bf16 element = simt::ldg(&problem.x[token * problem.hidden + column]);
    simt::stg(&problem.permuted[place * problem.hidden + column], element);
  }
}

inline void copy_slots(const Problem& problem, const simt::Queue& queue) {
  simt::launch(copy_slots_kernel,
               {.name = "copy_slots",
                // Slots may be more than the 65,535 blocks that y has at most.
                .grid = {.x = static_cast<unsigned>(problem.tokens * problem.top_k),
                         .y = simt::ceil_div(problem.hidden, kCopyThreads)},
                .block = {.x = kCopyThreads},
                .queue = queue},
               problem);
}

}  // namespace
}  // namespace ultra::kernels::token_permutation
