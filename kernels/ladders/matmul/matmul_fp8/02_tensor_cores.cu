// Rung 2: tensor cores that multiply fp8.
//
// Idea:   mma.sync takes e4m3 as it is: 32 along the depth where bf16 has 16, in the same registers.
// Gain:   twice the multiply-adds of an instruction, and nothing to convert: on Ada's GPUs (compute
//         capability 8.9). For an H100 ptxas converts both factors to fp16 and multiplies these, so that
//         nothing is gained, and sums keep the bits of fp32: there only wgmma multiplies fp8.
// Limit:  mma.sync, therefore. The promotion, 64 multiply-adds a thread for each group, which wgmma can
//         hide behind the next product.

#include "kernels/ladders/matmul/matmul_fp8/scaled_tile.cuh"

namespace ultra::kernels::matmul_fp8 {
namespace {

__global__ void __launch_bounds__(kThreads, 1) tensor_cores_kernel(const Problem problem) {
  compute_tile(problem, [](WarpSums& sums, const Left& left, const Right& right) {
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        multiply_accumulate_e4m3(sums[i][j], left[i], right[j], sums[i][j]);
      }
    }
  });
}

}  // namespace

template <>
void tensor_cores<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(tensor_cores_kernel, launch_of(problem, queue, "tensor_cores"), problem);
}

}  // namespace ultra::kernels::matmul_fp8
