// A product on one warp's tensor cores: copy_async() into two stages, load_matrix, multiply_accumulate.

#include "kernels/simt/async_copy.cuh"
#include "kernels/simt/matrix_tiles.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"

namespace ultra::simt::test {
namespace {

constexpr int kDepth = 16;  // of one step

struct Stage {
  __align__(16) bf16 a[16][kDepth];
  __align__(16) bf16 b[kDepth * 8];  // [8, kDepth], or [kDepth, 8] if transposed
};

// What is left of a row, in bytes, for a copy of `bytes`.
__device__ int left_of(int depth, int k, int bytes) {
  const int left = (depth - k) * 2;
  return left < 0 ? 0 : left < bytes ? left : bytes;
}

__device__ void fetch(Stage& stage, const bf16* a, const bf16* b, int depth, int k,
                      bool transposed) {
  const int lane = threadIdx.x;
  for (int i = lane; i < 16 * kDepth / 2; i += 32) {  // two elements each: rows may be ragged
    const int row = i / (kDepth / 2);
    const int column = i % (kDepth / 2) * 2;
    const int bytes = left_of(depth, k + column, 4);
    copy_async<4>(&stage.a[row][column], bytes == 0 ? a : &a[row * depth + k + column], bytes);
  }
  if (transposed) {
    if (lane < kDepth) {
      const int bytes = k + lane < depth ? 16 : 0;
      copy_async<16>(&stage.b[lane * 8], bytes == 0 ? b : &b[(k + lane) * 8], bytes);
    }
  } else {
    for (int i = lane; i < 8 * kDepth / 2; i += 32) {
      const int row = i / (kDepth / 2);
      const int column = i % (kDepth / 2) * 2;
      const int bytes = left_of(depth, k + column, 4);
      copy_async<4>(&stage.b[row * kDepth + column], bytes == 0 ? b : &b[row * depth + k + column],
                    bytes);
    }
  }
  commit_copies();
}

__global__ void matrix_product_kernel(const bf16* a, const bf16* b, float* d, int depth,
                                      bool transposed) {
  __shared__ Stage stages[2];
  const int lane = threadIdx.x;
  float sums[4] = {};
  fetch(stages[0], a, b, depth, 0, transposed);
  for (int k = 0; k < depth; k += kDepth) {
    fetch(stages[(k / kDepth + 1) % 2], a, b, depth, k + kDepth, transposed);
    wait_copies<1>();
    __syncwarp();  // the other lanes' copies have landed
    const Stage& stage = stages[k / kDepth % 2];
    unsigned left[4];
    unsigned right[2];
    load_matrix_x4(left, &stage.a[lane % 16][lane / 16 * 8]);
    if (transposed) {
      load_matrix_x2_transposed(right, &stage.b[lane % 16 * 8]);
    } else {
      load_matrix_x2(right, &stage.b[lane % 8 * kDepth + lane / 8 % 2 * 8]);
    }
    multiply_accumulate(sums, left, right, sums);
    __syncwarp();  // all have read the stage that the next round overwrites
  }
  const int row = lane / 4;
  const int column = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    stg(&d[(row + i / 2 * 8) * 8 + column + i % 2], sums[i]);
  }
}

}  // namespace

template <>
void matrix_product<kExecutor>(const MatrixProduct& product, const Queue& queue) {
  launch(matrix_product_kernel, {.name = "matrix_product", .block = {.x = 32}, .queue = queue},
         product.a, product.b, product.d, product.depth, product.transposed);
}

}  // namespace ultra::simt::test
