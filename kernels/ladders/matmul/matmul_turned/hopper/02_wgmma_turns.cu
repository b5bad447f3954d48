// Rung 2: wgmma reads factors as they lie. Checked on the emulator, right on an H200.
//
// Idea:   a descriptor says how a tile lies in shared memory, and two bits of the instruction say which
//         factors it transposes. So the kernel of matmul_bf16's last rung takes either layout: what
//         changes is the boxes that TMA brings, and the steps along the depth.
// Moves:  as there. Sums in fp32 go from registers to memory, and are read before where they are added
//         to: 4 bytes of c instead of 2, or 8.
// Limit:  the power of the card, as there.

#include "kernels/ladders/matmul/matmul_bf16/hopper/cluster_tile.cuh"
#include "kernels/ladders/matmul/matmul_turned/by_layout.cuh"

namespace ultra::kernels::matmul_turned {
namespace {

using namespace matmul_bf16::cluster_tile;

// Sums that stay in fp32.
struct AsFloats {
  float* sums;
  int rows;
  int columns;
  bool adds;

  __device__ __forceinline__ void operator()(StagedBoxes<kBoxes>&, const TensorMap&, int row,
                                             int column, const float (&values)[BN / 2]) const {
    const int lane = threadIdx.x % 32;
    const int own = row + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < BN / 8; ++i) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        store_sum_pair(sums, own + lower * 8, column + i * 8 + lane % 4 * 2, rows, columns,
                       values[4 * i + 2 * lower], values[4 * i + 2 * lower + 1], adds);
      }
    }
  }
};

template <Lies a_lies, Lies b_lies, typename Result>
__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    wgmma_turns_kernel(const __grid_constant__ TensorMap a_map,
                       const __grid_constant__ TensorMap b_map,
                       const __grid_constant__ TensorMap c_map, const Problem problem) {
  const auto compute = [&](const auto& store) {
    compute_tiles<a_lies, b_lies>(a_map, b_map, c_map, problem.rows, problem.columns, problem.depth,
                                  store);
  };
  if constexpr (sizeof(Result) == sizeof(bf16)) {
    compute(ThroughTma{});
  } else {
    compute(AsFloats{problem.sums, problem.rows, problem.columns, problem.adds});
  }
}

}  // namespace

template <>
void wgmma_turns<kExecutor>(const Problem& problem, const Queue& queue) {
  hopper::expect_hopper("rung 1 runs on any GPU since the A100");
  launch_by_layout(problem, [&]<Lies a_lies, Lies b_lies, typename Result>(const Result*) {
    const TensorMap a = describe_factor<a_lies>(problem.a, problem.rows, problem.depth, BM);
    const TensorMap b = describe_factor<b_lies>(problem.b, problem.columns, problem.depth, kHalf);
    const TensorMap c = problem.c == nullptr  // floats need none
                            ? a
                            : describe_matrix(problem.c, problem.rows, problem.columns, kRows);
    launch_clusters<kBlocks>(wgmma_turns_kernel<a_lies, b_lies, Result>,
                             launch_of(problem.rows, problem.columns, queue, "wgmma_turns"), a, b,
                             c, problem);
  });
}

}  // namespace ultra::kernels::matmul_turned
