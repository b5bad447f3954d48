// Rung 4: Hopper's own instructions. Checked on the emulator, right on an H200.
//
// Idea:   two warps fetch keys and values with TMA into two rings; warpgroups multiply them where
//         they lie (wgmma), 64 queries each. Scores come from queries and keys in shared memory;
//         weights stay in registers, where the scores' layout is that of wgmma's left factor. The
//         products run in the background: scores of the next tile are begun before weights of this
//         one meet their values, and the softmax of the next tile runs beside that product. The
//         warpgroups are independent of each other: while one takes powers of 2, the other's
//         products fill the tensor cores.
// Moves:  a block has 128 queries (192 where rows have at most 64 elements): each tile of keys and
//         values is read from the second-level cache once for them, and past all registers.
//         Of 128 x 128 scores with rows of 128, the products take 2048 cycles of the
//         multiprocessor's tensor cores (4096 operations per cycle), the powers 1024 of its special
//         function units (16 per cycle): behind each other, two thirds of the peak; beside each
//         other, all of it.
// Limit:  nobody says that the warpgroups are at different places: they may all take powers at the
//         same time, and then all want the tensor cores. Next: turns.
// Source: Shah et al. 2024, FlashAttention-3, arXiv 2407.08608, sections 3.1 and 3.2.

#include "kernels/ladders/attention/attention_bf16/hopper/warpgroup_attention.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

// Nobody waits for another.
struct Independent {
  __device__ __forceinline__ void begin() const {}
  __device__ __forceinline__ void wait() const {}
  __device__ __forceinline__ void pass() const {}
  __device__ __forceinline__ void end() const {}
};

template <int kHeadDim>
__global__ void __launch_bounds__((kConsumers<kHeadDim> + 1) * kWarpgroup, 1)
    warpgroups_kernel(const __grid_constant__ TensorMap q_map,
                      const __grid_constant__ TensorMap k_map,
                      const __grid_constant__ TensorMap v_map, const ProblemOf<bf16> problem) {
  attend_block<kHeadDim>({q_map, k_map, v_map}, problem, [](int) { return Independent{}; });
}

}  // namespace

template <>
void warpgroups<simt::kExecutor>(const Problem& problem, const simt::Queue& queue) {
  expect_hopper("rungs 1 to 3 run on any GPU since the A100");
  if (problem.shape.head_dim <= 64) {
    launch_attention<64>("warpgroups", warpgroups_kernel<64>, problem, queue);
  } else {
    launch_attention<128>("warpgroups", warpgroups_kernel<128>, problem, queue);
  }
}

}  // namespace ultra::kernels::attention_bf16
