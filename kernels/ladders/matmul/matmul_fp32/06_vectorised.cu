// Rung 6: four floats per access.
//
// Idea:   an instruction can move 16 bytes a lane. Rows of a, b and c do so as they are; from the tile
//         of a, a thread needs a column, so the tile is stored transposed: its 4 rows are neighbours.
//         Rows of the transposed tile are 4 floats longer than they need to be: 4 rows further is 16
//         banks further, and the 2 x 16 lanes that store meet in no bank.
// Gain:   a quarter of the loads, from global and from shared memory: 4 of the latter for 64
//         multiply-adds instead of 16. Sectors and wavefronts stay: the same bytes.
// Cost:   the same registers; 128 bytes more shared memory. Rows that do not begin at 16 bytes (columns
//         or depth no multiple of 4) are loaded one by one, by another instance of the kernel.
// Limit:  which threads form a warp: 2 x 16 of them need 16 + 128 different floats for each k.

#include "kernels/ladders/matmul/matmul_fp32/quads.cuh"

namespace ultra::kernels::matmul_fp32 {
namespace {

using namespace simt;

constexpr int kTile = 128;  // BM = BN
constexpr int kDepth = 8;   // BK
constexpr int kOwn = 8;     // TM = TN, as two times four, half a tile apart
constexpr int kAcross = kTile / kOwn;
constexpr int kThreads = kAcross * kAcross;
constexpr int kLength = kTile + 4;  // of a row of the transposed tile
static_assert(kThreads * 4 == kTile * kDepth, "each thread loads one float4 of each tile");

template <RowStart kStart>
__global__ void __launch_bounds__(kThreads)
    vectorised_kernel(const float* __restrict__ a, const float* __restrict__ b,
                      float* __restrict__ c, int rows, int columns, int depth) {
  __shared__ __align__(16) float tile_a[kDepth][kLength];  // (k, row)
  __shared__ __align__(16) float tile_b[kDepth][kTile];    // (k, column)
  const int thread = threadIdx.x;
  const int first_row = blockIdx.y * kTile;
  const int first_column = blockIdx.x * kTile;
  const int row_a = thread / (kDepth / 4);
  const int k_a = thread % (kDepth / 4) * 4;
  const int k_b = thread / (kTile / 4);
  const int column_b = thread % (kTile / 4) * 4;
  const int own_row = thread / kAcross * 4;
  const int own_column = thread % kAcross * 4;
  const float* const next_a = &a[(first_row + row_a) * depth + k_a];
  const float* const next_b = &b[k_b * columns + first_column + column_b];
  float sums[kOwn][kOwn] = {};
  for (int first = 0; first < depth; first += kDepth) {
    // How many of the four elements exist.
    const int count_a = first_row + row_a < rows ? depth - first - k_a : 0;
    const int count_b = first + k_b < depth ? columns - first_column - column_b : 0;
    float4 left = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    float4 right = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if constexpr (kStart == RowStart::kAnywhere) {
      left = load_singly(&next_a[first], count_a);
      right = load_singly(&next_b[first * columns], count_b);
    } else {
      if (branch(count_a > 0)) {
        left = ldg(reinterpret_cast<const float4*>(&next_a[first]));
      }
      if (branch(count_b > 0)) {
        right = ldg(reinterpret_cast<const float4*>(&next_b[first * columns]));
      }
    }
    // [region vectorised]
    sts(&tile_a[k_a][row_a], left.x);
    sts(&tile_a[k_a + 1][row_a], left.y);
    sts(&tile_a[k_a + 2][row_a], left.z);
    sts(&tile_a[k_a + 3][row_a], left.w);
    sts(reinterpret_cast<float4*>(&tile_b[k_b][column_b]), right);
    __syncthreads();  // without it, a warp multiplies what another has not stored yet
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float4 rows_0 = lds(reinterpret_cast<const float4*>(&tile_a[k][own_row]));
      const float4 rows_1 = lds(reinterpret_cast<const float4*>(&tile_a[k][own_row + kTile / 2]));
      const float4 cols_0 = lds(reinterpret_cast<const float4*>(&tile_b[k][own_column]));
      const float4 cols_1 =
          lds(reinterpret_cast<const float4*>(&tile_b[k][own_column + kTile / 2]));
      const float sides[2][kOwn] = {
          {rows_0.x, rows_0.y, rows_0.z, rows_0.w, rows_1.x, rows_1.y, rows_1.z, rows_1.w},
          {cols_0.x, cols_0.y, cols_0.z, cols_0.w, cols_1.x, cols_1.y, cols_1.z, cols_1.w}};
      // [/region]
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          sums[i][j] += sides[0][i] * sides[1][j];
        }
      }
    }
    __syncthreads();  // without it, the next tile overwrites what a slower warp still multiplies
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = first_row + own_row + i % 4 + i / 4 * (kTile / 2);
    if (branch(row < rows)) {
#pragma unroll
      for (int j = 0; j < kOwn; j += 4) {
        const int column = first_column + own_column + j / 4 * (kTile / 2);
        store_quad<kStart>(&c[row * columns + column],
                           make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]),
                           column, columns);
      }
    }
  }
}

}  // namespace

template <>
void vectorised<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(row_start(problem.depth, problem.columns) == RowStart::kAligned
             ? vectorised_kernel<RowStart::kAligned>
             : vectorised_kernel<RowStart::kAnywhere>,
         {.name = "vectorised",
          .grid = {.x = ceil_div(problem.columns, kTile), .y = ceil_div(problem.rows, kTile)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.a, problem.b, problem.c, problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_fp32
