// Rung 1: a launch for each expert.
//
// Idea:   what a loop over experts does: each product is an ordinary one, of as many rows as the
//         expert has tokens.
// Cost:   the host must know the numbers of tokens before it can launch: it waits for the router's
//         result, and the GPU for the host. A product of few rows does not fill the GPU: with 64
//         experts and 128 tokens each, a launch has one row of tiles.
// Limit:  launches, and multiprocessors without a tile.

#include "kernels/ladders/matmul/grouped_matmul/product_tile.cuh"

namespace ultra::kernels::grouped_matmul {
namespace {

__global__ void __launch_bounds__(kThreads, 2)
    launch_each_kernel(const Problem problem, int expert, int begin, int end) {
  compute_tile(dynamic_shared<uint4>(), product_of(problem, expert, begin, end), blockIdx.y * kTile,
               blockIdx.x * kTile, problem.columns, problem.depth);
}

}  // namespace

template <>
void launch_each<kExecutor>(const Problem& problem, const Queue& queue) {
  for (int expert = 0; expert < problem.experts; ++expert) {
    const int begin = problem.host_begins[expert];
    const int end = problem.host_begins[expert + 1];
    if (begin == end) {
      continue;
    }
    launch(launch_each_kernel,
           {.name = "launch_each",
            .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(end - begin, kTile)},
            .block = {.x = kThreads},
            .shared_bytes = kSharedBytes,
            .queue = queue},
           problem, expert, begin, end);
  }
}

}  // namespace ultra::kernels::grouped_matmul
