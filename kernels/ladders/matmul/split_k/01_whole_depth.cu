// Rung 1: a block for each tile.
//
// Idea:   the product as matmul_bf16's rung 5 does it.
// Cost:   as many blocks as tiles. A gradient of 1024 x 1024 weights has 64 tiles: on 132
//         multiprocessors more than half have nothing to do, however many tokens the depth has.
// Limit:  multiprocessors without a tile.

#include "kernels/ladders/matmul/split_k/tiles.cuh"

namespace ultra::kernels::split_k {
namespace {

__global__ void __launch_bounds__(kThreads, 2) whole_depth_kernel(const Problem problem) {
  WarpSums sums = {};
  multiply(sums, problem, blockIdx.x, 0, steps_of(problem.depth));
  store_tile(sums, problem, blockIdx.x);
}

}  // namespace

template <>
void whole_depth<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  launch(whole_depth_kernel,
         multiplying("whole_depth", count_tiles(problem.rows, problem.columns), queue), problem);
}

}  // namespace ultra::kernels::split_k
