// Rung 2: one launch for all experts.
//
// Idea:   the grid has as many rows of blocks as there can be rows of tiles, whoever they belong
//         to. A block walks the experts' begins, which the GPU knows, until it has found its own;
//         blocks too many end at once.
// Gain:   no number goes to the host, and all experts' tiles fill the GPU together.
// Limit:  a block too many for each expert at most, and the walk: a load for each expert. Blocks of
//         one column lie far apart in time, and each expert's weights are fetched for each row of
//         tiles.

#include "kernels/ladders/matmul/grouped_matmul/product_tile.cuh"

namespace ultra::kernels::grouped_matmul {
namespace {

// [region one_launch]
__global__ void __launch_bounds__(kThreads, 2) one_launch_kernel(const Problem problem) {
  const ExpertTile tile = find_row_tile(problem, blockIdx.y);
  if (branch(tile.expert < problem.experts)) {
    compute_tile(dynamic_shared<uint4>(), product_of(problem, tile.expert, tile.begin, tile.end),
                 tile.row_tile * kTile, blockIdx.x * kTile, problem.columns, problem.depth);
  }
}
// [/region]

}  // namespace

template <>
void one_launch<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(one_launch_kernel,
         {.name = "one_launch",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = most_row_tiles(problem)},
          .block = {.x = kThreads},
          .shared_bytes = kSharedBytes,
          .queue = queue},
         problem);
}

}  // namespace ultra::kernels::grouped_matmul
