// Rung 1: no tensor cores. A block of 128 x 128, a thread of 8 x 8, multiply-adds in fp32.
//
// Idea:   the fp32 ladder's shared tiles, with inputs of half the size. Both tiles are stored
//         transposed and as floats, so that a thread reads 4 neighbours of a column at once.
// Cost:   per step of the depth, a thread reads 16 floats from shared memory for 64 multiply-adds.
// Limit:  the multiply-adds of CUDA cores: 67 TFLOP/s on an H100, whose tensor cores have 990 for bf16
//         (NVIDIA H100 datasheet, SXM). Next: tensor cores.

#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/units.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 16;
constexpr int kStride = BM + 4;  // floats; the padding keeps rows at multiples of 16 bytes
constexpr int kThreads = 256;    // 16 x 16
constexpr int kHalf = 64;        // a thread has 4 rows and columns in each half of the tile

// Stores 8 elements of one row of a tile as a piece of a column.
__device__ __forceinline__ void store_transposed(float (&tile)[BK][kStride], int row, int k,
                                                 uint4 unit) {
  const unsigned words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    const float2 elements = unpack_bf16(words[i]);
    sts(&tile[k + 2 * i][row], elements.x);
    sts(&tile[k + 2 * i + 1][row], elements.y);
  }
}

__device__ __forceinline__ void add_products(float (&sums)[8][8], const float4 (&left)[2],
                                             const float4 (&right)[2]) {
  const float rows[8] = {left[0].x, left[0].y, left[0].z, left[0].w,
                         left[1].x, left[1].y, left[1].z, left[1].w};
  const float columns[8] = {right[0].x, right[0].y, right[0].z, right[0].w,
                            right[1].x, right[1].y, right[1].z, right[1].w};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sums[i][j] += rows[i] * columns[j];
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    cuda_cores_kernel(const bf16* __restrict__ a, const bf16* __restrict__ b, bf16* __restrict__ c,
                      int rows, int columns, int depth) {
  __shared__ __align__(16) float a_tile[BK][kStride];
  __shared__ __align__(16) float b_tile[BK][kStride];
  const int row = blockIdx.y * BM;
  const int column = blockIdx.x * BN;
  const int tile_row = threadIdx.x / 2;  // of this thread's units
  const int tile_k = threadIdx.x % 2 * kUnit;
  const int top = threadIdx.x / 16 * 4;
  const int left_edge = threadIdx.x % 16 * 4;
  float sums[8][8] = {};
  for (int k = 0; k < depth; k += BK) {
    const uint4 a_unit = load_unit(a, row + tile_row, rows, k + tile_k, depth);
    const uint4 b_unit = load_unit(b, column + tile_row, columns, k + tile_k, depth);
    __syncthreads();  // all have read the tiles of the last step, which are overwritten now
    store_transposed(a_tile, tile_row, tile_k, a_unit);
    store_transposed(b_tile, tile_row, tile_k, b_unit);
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (int i = 0; i < BK; ++i) {
      float4 left[2];
      float4 right[2];
      left[0] = lds(reinterpret_cast<const float4*>(&a_tile[i][top]));
      left[1] = lds(reinterpret_cast<const float4*>(&a_tile[i][kHalf + top]));
      right[0] = lds(reinterpret_cast<const float4*>(&b_tile[i][left_edge]));
      right[1] = lds(reinterpret_cast<const float4*>(&b_tile[i][kHalf + left_edge]));
      add_products(sums, left, right);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int c_row = row + i / 4 * kHalf + top + i % 4;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const int c_column = column + j / 4 * kHalf + left_edge + j % 4;
      store_pair(c, c_row, c_column, rows, columns, sums[i][j], sums[i][j + 1]);
    }
  }
}

}  // namespace

template <>
void cuda_cores<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(cuda_cores_kernel,
         {.name = "cuda_cores",
          .grid = {.x = ceil_div(problem.columns, BN), .y = ceil_div(problem.rows, BM)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16
