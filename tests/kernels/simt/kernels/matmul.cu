// The three first rungs of a matrix product, for the counters and for speed. n is a multiple of 32.

#include "kernels/simt/simt.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"

namespace ultra::simt::test {
namespace {

constexpr int kTile = 32;

// Neighbouring lanes take neighbouring rows: each reads another line of a.
__global__ void naive_kernel(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int column = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0.0F;
  for (int k = 0; k < n; ++k) {
    const float left = ldg(&a[row * n + k]);
    const float right = ldg(&b[k * n + column]);
    sum += left * right;
  }
  stg(&c[row * n + column], sum);
}

// Neighbouring lanes take neighbouring columns.
__global__ void coalesced_kernel(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0F;
  for (int k = 0; k < n; ++k) {
    const float left = ldg(&a[row * n + k]);
    const float right = ldg(&b[k * n + column]);
    sum += left * right;
  }
  stg(&c[row * n + column], sum);
}

__global__ void tiled_kernel(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int row = blockIdx.y * kTile + y;
  const int column = blockIdx.x * kTile + x;
  float sum = 0.0F;
  for (int start = 0; start < n; start += kTile) {
    sts(&a_tile[y][x], ldg(&a[row * n + start + x]));
    sts(&b_tile[y][x], ldg(&b[(start + y) * n + column]));
    __syncthreads();  // the products read what other threads loaded
    for (int k = 0; k < kTile; ++k) {
      const float left = lds(&a_tile[y][k]);
      const float right = lds(&b_tile[k][x]);
      sum += left * right;
    }
    __syncthreads();  // the next round overwrites the tiles
  }
  stg(&c[row * n + column], sum);
}

__global__ void plain_tiled_kernel(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int row = blockIdx.y * kTile + y;
  const int column = blockIdx.x * kTile + x;
  float sum = 0.0F;
  for (int start = 0; start < n; start += kTile) {
    a_tile[y][x] = a[row * n + start + x];
    b_tile[y][x] = b[(start + y) * n + column];
    __syncthreads();  // the products read what other threads loaded
    for (int k = 0; k < kTile; ++k) {
      sum += a_tile[y][k] * b_tile[k][x];
    }
    __syncthreads();  // the next round overwrites the tiles
  }
  c[row * n + column] = sum;
}

Config config_of(const char* name, int n, const Queue& queue) {
  const unsigned tiles = ceil_div(static_cast<std::size_t>(n), kTile);
  return {.name = name,
          .grid = {.x = tiles, .y = tiles},
          .block = {.x = kTile, .y = kTile},
          .queue = queue};
}

}  // namespace

template <>
void matmul<kExecutor>(MatmulKernel kernel, const float* a, const float* b, float* c, int n,
                       const Queue& queue) {
  switch (kernel) {
    case MatmulKernel::kNaive:
      return launch(naive_kernel, config_of("naive", n, queue), a, b, c, n);
    case MatmulKernel::kCoalesced:
      return launch(coalesced_kernel, config_of("coalesced", n, queue), a, b, c, n);
    case MatmulKernel::kTiled:
      break;
  }
  launch(tiled_kernel, config_of("tiled", n, queue), a, b, c, n);
}

template <>
void matmul_without_accessors<kExecutor>(const float* a, const float* b, float* c, int n,
                                         const Queue& queue) {
  launch(plain_tiled_kernel, config_of("plain", n, queue), a, b, c, n);
}

}  // namespace ultra::simt::test
