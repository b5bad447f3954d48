// Rung 1: fp8 in memory, bf16 in the tensor cores.
//
// Idea:   every number of e4m3 is one of bf16, too. A lane has four neighbours along the depth in a
//         register; as pairs they are what two products of 16 along the depth take, if both factors
//         call the same elements the same places.
// Gain:   half the bytes of bf16, on any GPU since the A100.
// Limit:  the tensor cores' rate in bf16, and the conversions: four for each register, before each
//         product.

#include "kernels/ladders/matmul/matmul_fp8/scaled_tile.cuh"

namespace ultra::kernels::matmul_fp8 {
namespace {

// Four elements of fp8, as two registers of two in bf16. The four bits of exponent and three of
// fraction, where a float has the last of its exponent and the first of its fraction, are the number
// times 2^(7 - 127): the formats differ in their bias. (NaN, which quantization does not make, would
// become 480.)
__device__ __forceinline__ void convert(unsigned (&pairs)[2], unsigned packed) {
  float values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = packed >> 8 * i & 0xffU;
    const unsigned bits = (byte & 0x80U) << 24 | (byte & 0x7fU) << 20;
    values[i] = __builtin_bit_cast(float, bits) * 0x1p120F;
  }
  pairs[0] = pack_bf16(values[0], values[1]);
  pairs[1] = pack_bf16(values[2], values[3]);
}

__global__ void __launch_bounds__(kThreads, 1) converted_kernel(const Problem problem) {
  compute_tile(problem, [](WarpSums& sums, const Left& left, const Right& right) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // of the 32 elements along the depth
      unsigned columns[WN / 8][2];
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        convert(columns[j], right[j][half]);
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        unsigned upper[2];
        unsigned lower[2];
        convert(upper, left[i][2 * half]);
        convert(lower, left[i][2 * half + 1]);
        const unsigned rows[4] = {upper[0], lower[0], upper[1], lower[1]};
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
          multiply_accumulate(sums[i][j], rows, columns[j], sums[i][j]);
        }
      }
    }
  });
}

}  // namespace

template <>
void converted<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(converted_kernel, launch_of(problem, queue, "converted"), problem);
}

}  // namespace ultra::kernels::matmul_fp8
