#pragma once
/// @file
/// Copies of whole tiles from global memory in the background, by a block of kBlockThreads threads.

#include "kernels/ladders/attention/attention_bf16/swizzled_tiles.cuh"
#include "kernels/simt/async_copy.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

// Begins to copy `rows` rows of `columns` elements, which lie `stride` elements apart, into a swizzled tile
// of kRows x kHeadDim, the rest zeros. kAtOnce: of a thread's copies, how many addresses wait in registers.
template <int kRows, int kHeadDim, int kBlockThreads, int kAtOnce = kRows, typename T>
__device__ __forceinline__ void copy_tile(T* tile, const T* source, int rows, int columns,
                                          int stride) {
  constexpr int kChunks = kHeadDim / kChunk;
#pragma unroll kAtOnce
  for (int step = 0; step < kRows * kChunks / kBlockThreads; ++step) {
    const int index = static_cast<int>(threadIdx.x) + step * kBlockThreads;
    const int row = index / kChunks;
    const int chunk = index % kChunks;
    const bool is_inside = row < rows && chunk * kChunk < columns;
    const T* const from = is_inside ? &source[row * stride + chunk * kChunk] : source;
    simt::copy_async<16>(&tile[swizzled_index<kHeadDim>(row, chunk)], from, is_inside ? 16 : 0);
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_bf16
