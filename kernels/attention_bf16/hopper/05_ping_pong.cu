// Rung 5: warpgroups that take turns (ping-pong). Checked on the emulator; not run on a GPU yet.
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

#include "kernels/attention_bf16/hopper/warpgroup_attention.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

// In a ring: each warpgroup waits for the one before it. Barrier 1 + w of the hardware (0 is
// __syncthreads()) is for warpgroup w: its 128 threads wait there, the 128 of the one before
// arrive.
//
// Arrivals and waits come out even: of n tiles behind the first, warpgroup w waits n times for n
// passes; but warpgroup 0 begins with a pass from the last one, and ends with one wait more.
template <int count>
class TakingTurns {
 public:
  __device__ __forceinline__ explicit TakingTurns(int warpgroup) : own_(warpgroup) {}

  // The last warpgroup lets the first one go ahead.
  __device__ __forceinline__ void begin() const {
    if (own_ == count - 1) {
      pass();
    }
  }
  __device__ __forceinline__ void wait() const {
    __syncwarp();  // lanes may have left a wait one by one; the barrier takes whole warps
    wait_at_named<2 * kWarpgroup>(1 + own_);
  }
  __device__ __forceinline__ void pass() const {
    arrive_at_named<2 * kWarpgroup>(1 + (own_ + 1) % count);
  }
  __device__ __forceinline__ void end() const {
    if (own_ == 0) {
      wait();
    }
  }

 private:
  int own_;
};

template <int kHeadDim>
__global__ void __launch_bounds__((kConsumers<kHeadDim> + 1) * kWarpgroup, 1)
    ping_pong_kernel(const __grid_constant__ TensorMap q_map,
                     const __grid_constant__ TensorMap k_map,
                     const __grid_constant__ TensorMap v_map, const Problem problem) {
  attend_block<kHeadDim>({q_map, k_map, v_map}, problem, [](int warpgroup) {
    return TakingTurns<kConsumers<kHeadDim>>(warpgroup);
  });
}

}  // namespace

template <>
void ping_pong<simt::kSide>(const Problem& problem, const simt::Queue& queue) {
  expect_hopper("rungs 1 to 3 run on any GPU since the A100");
  if (problem.shape.head_dim <= 64) {
    launch_attention<64>("ping_pong", ping_pong_kernel<64>, problem, queue);
  } else {
    launch_attention<128>("ping_pong", ping_pong_kernel<128>, problem, queue);
  }
}

}  // namespace ultra::kernels::attention_bf16
