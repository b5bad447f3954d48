// Rung 1: one thread per element.
//
// Idea:   the definition. The lanes of a warp read 32 neighbours of a row of in, and write them
//         below each other into a column of out.
// Cost:   a load of a warp is 4 sectors, its store 32: one for each lane, of which 4 bytes in 32
//         are used. Sectors of 32 rows wait in the second-level cache for the warps that fill them.
// Limit:  the sectors of the stores, 8 times the least.

#include "kernels/ladders/basics/transpose/transpose.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::transpose {
namespace {

using namespace simt;

constexpr int kBlockColumns = 32;
constexpr int kBlockRows = 8;

__global__ void naive_kernel(const float* __restrict__ in, float* __restrict__ out, int rows,
                             int columns) {
  const int row = blockIdx.y * kBlockRows + threadIdx.y;
  const int column = blockIdx.x * kBlockColumns + threadIdx.x;
  if (branch(row >= rows || column >= columns)) {
    return;
  }
  const float value = ldg(&in[static_cast<std::size_t>(row) * columns + column]);
  stg(&out[static_cast<std::size_t>(column) * rows + row], value);
}

}  // namespace

template <>
void naive<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(naive_kernel,
         {.name = "naive",
          .grid = {.x = ceil_div(problem.columns, kBlockColumns),
                   .y = ceil_div(problem.rows, kBlockRows)},
          .block = {.x = kBlockColumns, .y = kBlockRows},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::transpose
