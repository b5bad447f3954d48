// Rung 12: two blocks below each other fetch b once for both, and c leaves through TMA. Checked
//          on the emulator, right on an H200.
//
// Idea:   a cluster of two blocks shares a column of tiles. Each fetches its own rows of a, and
//         half of b's box, which arrives in both (multicast). A stage is empty when the multiplying
//         warps of both blocks have said so to both. c is rounded into shared memory (stmatrix) and
//         stored by the copy engine, while the next tile is multiplied.
// Moves:  per block and step, 16 KiB of a and 16 of b instead of 32: 128 operations per byte
//         instead of 85. Stores of whole lines, and no register waits for them.
// Limit:  the power of the card: an H100 lowers its clock under full tensor cores. What is left is
//         the order of tiles, and the padding of shapes that are no multiple of 256 x 256.

#include "kernels/ladders/matmul/matmul_bf16/hopper/cluster_tile.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

using namespace cluster_tile;

constexpr Lies kLies = Lies::kAlongDepth;

__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    cluster_multicast_kernel(const __grid_constant__ TensorMap a_map,
                             const __grid_constant__ TensorMap b_map,
                             const __grid_constant__ TensorMap c_map, int rows, int columns,
                             int depth) {
  compute_tiles<kLies, kLies>(a_map, b_map, c_map, rows, columns, depth, ThroughTma{});
}

}  // namespace

template <>
void cluster_multicast<kExecutor>(const Problem& problem, const Queue& queue) {
  expect_hopper<kExecutor>(problem);
  launch_clusters<kBlocks>(cluster_multicast_kernel,
                           launch_of(problem.rows, problem.columns, queue, "cluster_multicast"),
                           describe_factor<kLies>(problem.a, problem.rows, problem.depth, BM),
                           describe_factor<kLies>(problem.b, problem.columns, problem.depth, kHalf),
                           describe_matrix(problem.c, problem.rows, problem.columns, kRows),
                           problem.rows, problem.columns, problem.depth);
}

}  // namespace ultra::kernels::matmul_bf16
