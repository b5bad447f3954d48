// A product of 16 x 16 tiles on one warp's tensor cores.

#include "kernels/simt/simt.cuh"
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
Report launch_tile_product(const Buffer<T>& a, const Buffer<T>& b, Buffer<float>& d, int depth) {
  return launch(tile_product_kernel<T>, {.name = "tile_product", .grid = {}, .block = {.x = 32}},
                a.data(), b.data(), d.data(), depth);
}

}  // namespace

template <>
Report tile_product<kSide, bf16>(const Buffer<bf16>& a, const Buffer<bf16>& b, Buffer<float>& d,
                                 int depth) {
  return launch_tile_product(a, b, d, depth);
}

template <>
Report tile_product<kSide, half>(const Buffer<half>& a, const Buffer<half>& b, Buffer<float>& d,
                                 int depth) {
  return launch_tile_product(a, b, d, depth);
}

}  // namespace ultra::simt::test
