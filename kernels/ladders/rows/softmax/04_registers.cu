// Rung 4: a warp keeps its row in registers.
//
// Idea:   the row is read once, 16 bytes per lane, into up to 64 registers of each lane; all passes
//         run over these. How many registers must be known to the compiler, so there is one kernel
//         per power of two, and the launcher takes the smallest that fits.
// Gain:   8 bytes per element, the least; a quarter of rung 3's requests, and all loads of a row
//         are under way at once.
// Limit:  a row of more than 2048 elements does not fit a warp's registers.

#include "kernels/ladders/rows/softmax/row_in_registers.cuh"
#include "kernels/ladders/rows/softmax/softmax.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::softmax {
namespace {

using namespace simt;

constexpr int kRows = 4;  // of a block: one per warp

template <int kVectors, bool kIsAligned>
__global__ void __launch_bounds__(32 * kRows)
    registers_kernel(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
  const int row = blockIdx.x * kRows + threadIdx.y;
  const int lane = threadIdx.x;
  if (branch(row >= rows)) {
    return;
  }
  const std::size_t first = static_cast<std::size_t>(row) * columns;
  RowPart<kVectors, kIsAligned> part;
  part.load(&in[first], columns, lane, 32);
  const float largest = warp_max(part.largest());
  const float sum = warp_sum(part.exponentiate(largest));
  part.store(&out[first], columns, lane, 32, 1.0F / sum);
}

template <int kVectors>
void launch_registers(const Problem& problem, const Queue& queue) {
  launch(problem.columns % kVector == 0 ? registers_kernel<kVectors, true>
                                        : registers_kernel<kVectors, false>,
         {.name = "registers",
          .grid = {.x = ceil_div(problem.rows, kRows)},
          .block = {.x = 32, .y = kRows},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace

template <>
void registers<kExecutor>(const Problem& problem, const Queue& queue) {
  const unsigned vectors = ceil_div(problem.columns, std::size_t{32} * kVector);
  if (vectors <= 1) {
    launch_registers<1>(problem, queue);
  } else if (vectors <= 2) {
    launch_registers<2>(problem, queue);
  } else if (vectors <= 4) {
    launch_registers<4>(problem, queue);
  } else if (vectors <= 8) {
    launch_registers<8>(problem, queue);
  } else {
    launch_registers<16>(problem, queue);
  }
}

}  // namespace ultra::kernels::softmax
