// Rung 4: 16 bytes per lane and access, in global and in shared memory.
//
// Idea:   a thread loads 4 x 4 elements, four neighbours of each of four rows, and turns them in
//         its registers: that is only naming. Turned, they are four chunks of 16 bytes of out's
//         rows, which change threads in shared memory so that a warp stores whole rows. A tile is
//         64 x 64. Chunk p of the tile's row r lies at chunk p ^ (r / 4 % 8): without this
//         permutation, threads that write chunk p of rows 0, 4, 8, ... would all write to the same
//         four banks. Padding by a chunk would do it, too, for 1 KiB more.
// Gain:   a quarter of rung 3's requests, with 16 sectors each; 16 elements per thread are under
//         way.
// Edges:  where rows of in (or of out) are no multiple of 4 elements, they do not begin at a
//         multiple of 16 bytes: their elements are accessed one by one.
// Limit:  the memory itself.

#include "kernels/ladders/basics/transpose/transpose.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::transpose {
namespace {

using namespace simt;

constexpr int kTile = 64;            // elements of a tile in each direction
constexpr int kChunk = 4;            // elements of an access
constexpr int kThreads = kTile / 4;  // threads of a block in each direction

// Where chunk `chunk` of row `row` of the tile lies: eight lanes, which access shared memory
// together, meet eight different groups of four banks in rows and in columns of chunks alike.
__device__ __forceinline__ int place_of(int row, int chunk) { return chunk ^ (row / kChunk % 8); }

// Four neighbours of a row of `columns` elements; what lies behind the row is left alone.
__device__ __forceinline__ void load_chunk(float (&values)[kChunk], const float* row, int column,
                                           int columns) {
  if (columns % kChunk == 0) {
    const float4 chunk = ldg(reinterpret_cast<const float4*>(&row[column]));
    values[0] = chunk.x;
    values[1] = chunk.y;
    values[2] = chunk.z;
    values[3] = chunk.w;
    return;
  }
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    if (column + j < columns) {
      values[j] = ldg(&row[column + j]);
    }
  }
}

__device__ __forceinline__ void store_chunk(float* row, int column, int columns,
                                            const float4& chunk) {
  if (columns % kChunk == 0) {
    stg(reinterpret_cast<float4*>(&row[column]), chunk);
    return;
  }
  const float values[kChunk] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    if (column + j < columns) {
      stg(&row[column + j], values[j]);
    }
  }
}

__global__ void __launch_bounds__(kThreads* kThreads)
    vectorised_kernel(const float* __restrict__ in, float* __restrict__ out, int rows,
                      int columns) {
  __shared__ float4 tile[kTile][kTile / kChunk];  // rows of out
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  const int x = threadIdx.x;
  const int y = threadIdx.y;

  float values[4][kChunk] = {};
  const int column = first_column + kChunk * x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + 4 * y + i;
    if (branch(row < rows && column < columns)) {
      load_chunk(values[i], &in[static_cast<std::size_t>(row) * columns], column, columns);
    }
  }
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    const float4 turned = make_float4(values[0][j], values[1][j], values[2][j], values[3][j]);
    sts(&tile[kChunk * x + j][place_of(kChunk * x + j, y)], turned);
  }
  // Without this a warp would read chunks that other warps have yet to write.
  __syncthreads();
  const int row = first_row + kChunk * x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int out_row = y + i * kThreads;
    const float4 chunk = lds(&tile[out_row][place_of(out_row, x)]);
    if (branch(first_column + out_row < columns && row < rows)) {
      store_chunk(&out[static_cast<std::size_t>(first_column + out_row) * rows], row, rows, chunk);
    }
  }
}

}  // namespace

template <>
void vectorised<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(vectorised_kernel,
         {.name = "vectorised",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kThreads, .y = kThreads},
          .queue = queue},
         problem.in, problem.out, problem.rows, problem.columns);
}

}  // namespace ultra::kernels::transpose
