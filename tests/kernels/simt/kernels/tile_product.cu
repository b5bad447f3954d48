// A product of 16 x 16 tiles on one warp's tensor cores.

#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"
#include "kernels/simt/tiles.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"

namespace ultra::simt::test {
namespace {

// a is row-major, b column-major: both are read along their depth.
template <typename T>
__global__ void tile_product_kernel(const T* a, const T* b, float* d, int depth) {
  TileFragment<TileUse::kLeft, T, TileLayout::kRowMajor> left;
  TileFragment<TileUse::kRight, T, TileLayout::kColumnMajor> right;
  TileFragment<TileUse::kSum, float> sum;
  fill_tile(sum, 0.0F);
  for (int k = 0; k < depth; k += 16) {
    load_tile(left, a + k, depth);
    load_tile(right, b + k, depth);
    multiply_tiles(sum, left, right, sum);
  }
  store_tile(d, sum, 16);
}

template <typename T>
void launch_tile_product(const T* a, const T* b, float* d, int depth, const Queue& queue) {
  launch(tile_product_kernel<T>, {.name = "tile_product", .block = {.x = 32}, .queue = queue}, a, b,
         d, depth);
}

}  // namespace

template <>
void tile_product<kExecutor, bf16>(const bf16* a, const bf16* b, float* d, int depth,
                                   const Queue& queue) {
  launch_tile_product(a, b, d, depth, queue);
}

template <>
void tile_product<kExecutor, half>(const half* a, const half* b, float* d, int depth,
                                   const Queue& queue) {
  launch_tile_product(a, b, d, depth, queue);
}

}  // namespace ultra::simt::test
