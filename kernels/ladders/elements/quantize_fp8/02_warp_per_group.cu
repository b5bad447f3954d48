// Rung 2: a warp per group, in one kernel.
//
// Idea:   four elements a lane; the largest magnitude by shuffles, while the elements wait in
//         registers.
// Gain:   x is read once: 3 bytes per element and a scale for 128 of them, the least.
// Limit:  requests of 8 bytes a lane to read and 4 to write; 8 bytes under way per thread.

#include "kernels/ladders/elements/quantize_fp8/lanes_per_group.cuh"

namespace ultra::kernels::quantize_fp8 {

template <>
void warp_per_group<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  launch_lanes_per_group<32>("warp_per_group", problem, queue);
}

}  // namespace ultra::kernels::quantize_fp8
