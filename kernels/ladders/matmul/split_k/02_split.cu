// Rung 2: the depth of each tile is cut into equal parts.
//
// Idea:   each part has a block, whose sums go to memory in fp32; a second kernel adds the parts
//         up, in their order, and rounds once. (Atomic additions would do without it, in an order
//         that nobody knows.)
// Gain:   as many blocks as the GPU has room for.
// Limit:  the sums' way through memory, 8 bytes per element and part; and whole parts: 64 tiles on
//         264 places are four parts each, 256 blocks; 100 tiles are two, and 64 places stay empty.

#include "kernels/ladders/matmul/split_k/tiles.cuh"

namespace ultra::kernels::split_k {
namespace {

__global__ void __launch_bounds__(kThreads, 2)
    part_kernel(const Problem problem, int tiles, int parts) {
  const int steps = steps_of(problem.depth);
  const int of_part = (steps + parts - 1) / parts;
  for (int piece = blockIdx.x; piece < tiles * parts; piece += gridDim.x) {
    const int first = piece / tiles * of_part;
    const int last = first + of_part < steps ? first + of_part : steps;
    WarpSums sums = {};
    multiply(sums, problem, piece % tiles, first, last);
    keep_sums(sums, problem, piece);
    __syncthreads();  // else the next piece's copies overwrite what others still multiply
  }
}

__global__ void __launch_bounds__(kThreads) sum_parts_kernel(const Problem problem, int parts) {
  WarpSums sums = {};
  for (int part = 0; part < parts; ++part) {
    add_kept(sums, problem, part * gridDim.x + blockIdx.x);
  }
  store_tile(sums, problem, blockIdx.x);
}

}  // namespace

template <>
void split<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  const int tiles = count_tiles(problem.rows, problem.columns);
  const int steps = static_cast<int>(ceil_div(problem.depth, kStep));
  const int parts = count_parts(tiles, steps, problem.blocks);
  launch(part_kernel, multiplying("part", tiles * parts, queue), problem, tiles, parts);
  launch(sum_parts_kernel,
         {.name = "sum_parts",
          .grid = {.x = static_cast<unsigned>(tiles)},
          .block = {.x = kThreads},
          .queue = queue},
         problem, parts);
}

}  // namespace ultra::kernels::split_k
