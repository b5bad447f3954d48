// Rung 5: warpgroups that take turns (ping-pong). Checked on the emulator, right on an H200.
//
// Idea:   rung 4 hopes that one warpgroup takes powers of 2 while another one multiplies. Here they
//         agree on it: a warpgroup begins its products of a tile, scores and output, when it has
//         the turn, and passes the turn on as soon as they are begun. The tensor cores then work on
//         one warpgroup's products while the other has nothing but its softmax to do, and the other
//         way round.
// Cost:   two barriers of a warpgroup per tile, of which one only arrives. All warpgroups of a
//         block go through the same number of tiles.
// Limit:  a block's first scores and its stores have no products beside them, and a multiprocessor
//         has room for one block. Next: blocks that stay, as in the matmul's rung 11.
// Source: Shah et al. 2024, FlashAttention-3, arXiv 2407.08608, section 3.1.

#include "kernels/ladders/attention/attention_bf16/hopper/taking_turns.cuh"
#include "kernels/ladders/attention/attention_bf16/hopper/warpgroup_attention.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

template <int kHeadDim, typename T>
__global__ void __launch_bounds__((kConsumers<kHeadDim> + 1) * kWarpgroup, 1)
    ping_pong_kernel(const __grid_constant__ TensorMap q_map,
                     const __grid_constant__ TensorMap k_map,
                     const __grid_constant__ TensorMap v_map, const ProblemOf<T> problem) {
  attend_block<kHeadDim>({q_map, k_map, v_map}, problem, [](int warpgroup) {
    return TakingTurns<kConsumers<kHeadDim>>(warpgroup);
  });
}

template <typename T>
void launch_ping_pong(const ProblemOf<T>& problem, const simt::Queue& queue) {
  expect_hopper("rungs 1 to 3 run on any GPU since the A100");
  if (problem.shape.head_dim <= 64) {
    launch_attention<64>("ping_pong", ping_pong_kernel<64, T>, problem, queue);
  } else {
    launch_attention<128>("ping_pong", ping_pong_kernel<128, T>, problem, queue);
  }
}

}  // namespace

template <>
void ping_pong<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  launch_ping_pong(problem, queue);
}

template <>
void ping_pong_f16<simt::kExecutor>(const ProblemOf<simt::half>& problem,
                                    const simt::Queue& queue) {
  launch_ping_pong(problem, queue);
}

}  // namespace ultra::kernels::attention_bf16
