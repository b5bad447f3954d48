// Rung 3: 16 lanes per group, 16 bytes a lane.
//
// Idea:   eight elements a lane: a warp has two groups, and the shuffles stay within its halves.
// Gain:   half of the requests; 16 bytes under way per thread.
// Limit:  memory. Less only in the epilogue of the kernel that makes x: a norm, or SwiGLU.

#include "kernels/ladders/elements/quantize_fp8/lanes_per_group.cuh"

namespace ultra::kernels::quantize_fp8 {

template <>
void vectorised<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  launch_lanes_per_group<16>("vectorised", problem, queue);
}

}  // namespace ultra::kernels::quantize_fp8
