// Rung 3: all steps of all tiles in one row, cut into as many pieces as blocks run at a time.
//
// Idea:   a block takes the same number of steps as any other, wherever tiles begin and end. A tile
//         whose steps are all its own it stores; of a tile that others have begun or will end it
//         keeps the sums, of which it has two at most: the first and the last. A second kernel adds
//         up the tiles that several blocks had, in the order of their blocks.
// Gain:   no place stays empty, for any number of tiles: at most a step more for one block than for
//         another. Sums go through memory for the tiles at the cuts only.
// Limit:  the tensor cores. Blocks at the same time are at different depths: rows of a that several
//         of them need are read at different times.

#include "kernels/ladders/matmul/split_k/tiles.cuh"

namespace ultra::kernels::split_k {
namespace {

// [region stream]
// Steps of all tiles that block `block` takes: [first_step_of(block), first_step_of(block + 1)).
__device__ __forceinline__ long long first_step_of(long long block, int blocks, long long steps) {
  return block * steps / blocks;
}

__global__ void __launch_bounds__(kThreads, 2) stream_kernel(const Problem problem, int tiles) {
  const int of_tile = steps_of(problem.depth);
  const long long all = static_cast<long long>(tiles) * of_tile;
  const long long begin = first_step_of(blockIdx.x, gridDim.x, all);
  const long long end = first_step_of(blockIdx.x + 1, gridDim.x, all);
  for (long long step = begin; step < end;) {
    const int tile = static_cast<int>(step / of_tile);
    const int first = static_cast<int>(step % of_tile);
    const int last = end - step < of_tile - first ? first + static_cast<int>(end - step) : of_tile;
    WarpSums sums = {};
    multiply(sums, problem, tile, first, last);
    if (first == 0 && last == of_tile) {
      store_tile(sums, problem, tile);
    } else {
      keep_sums(sums, problem, 2 * blockIdx.x + (step == begin ? 0 : 1));
    }
    __syncthreads();  // else the next tile's copies overwrite what others still multiply
    step += last - first;
  }
}
// [/region]

// A block for each tile: adds up what several blocks have of it.
__global__ void __launch_bounds__(kThreads)
    sum_pieces_kernel(const Problem problem, int tiles, int blocks) {
  const int of_tile = steps_of(problem.depth);
  const long long all = static_cast<long long>(tiles) * of_tile;
  const long long begin = static_cast<long long>(blockIdx.x) * of_tile;
  int block = static_cast<int>(begin * blocks / all);
  while (first_step_of(block + 1, blocks, all) <= begin) {
    ++block;
  }
  if (first_step_of(block, blocks, all) <= begin &&
      first_step_of(block + 1, blocks, all) >= begin + of_tile) {
    return;  // one block had all of it
  }
  WarpSums sums = {};
  for (; first_step_of(block, blocks, all) < begin + of_tile; ++block) {
    const bool is_first_of_block = first_step_of(block, blocks, all) >= begin;
    add_kept(sums, problem, 2 * block + (is_first_of_block ? 0 : 1));
  }
  store_tile(sums, problem, blockIdx.x);
}

}  // namespace

template <>
void stream<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  const int tiles = count_tiles(problem.rows, problem.columns);
  const long long steps = static_cast<long long>(tiles) * ceil_div(problem.depth, kStep);
  const int blocks = steps < problem.blocks ? static_cast<int>(steps) : problem.blocks;
  launch(stream_kernel, multiplying("stream", blocks, queue), problem, tiles);
  launch(sum_pieces_kernel,
         {.name = "sum_pieces",
          .grid = {.x = static_cast<unsigned>(tiles)},
          .block = {.x = kThreads},
          .queue = queue},
         problem, tiles, blocks);
}

}  // namespace ultra::kernels::split_k
