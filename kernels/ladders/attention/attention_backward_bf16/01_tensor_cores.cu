// Rung 1: the backward pass on tensor cores, with nothing exchanged between lanes.
//
// Idea:   as in rung 2 of attention_backward, a kernel sums over queries and one over keys. The first works
//         on transposed scores, k q^T: its rows are keys, so that the accumulators of weights and of their
//         gradients are, lane by lane, what mma.sync takes from the left to multiply them by d_o and q.
//         Tiles are swizzled, and the next ones are copied in the background.
// Gain:   tensor cores for all seven products; no weights in shared memory, no barrier for them.
// Limit:  two of the seven products are made twice; in the keys' kernel 16 rows of a warp fill its
//         registers, so every tile that is loaded from shared memory is multiplied once. Next: one kernel.

#include "kernels/ladders/attention/attention_backward_bf16/block_gradients.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

using namespace simt;

template <int kHeadDim, typename T>
__global__ void __launch_bounds__(kThreads, 1) keys_kernel(const ProblemOf<T> problem) {
  differentiate_keys<kHeadDim>(problem, {problem.shape.seq_len, 0}, blockIdx.x);
}

// Long rows first.
template <int kHeadDim, typename T>
__global__ void __launch_bounds__(kThreads, 1) queries_kernel(const ProblemOf<T> problem) {
  differentiate_queries<kHeadDim>(problem, {problem.shape.seq_len, 0}, gridDim.x - 1 - blockIdx.x);
}

template <int kHeadDim, typename T>
void launch_both(const ProblemOf<T>& problem, const Queue& queue) {
  const attention::Shape& shape = problem.shape;
  const unsigned blocks = ceil_div(shape.seq_len, kRows);
  launch(keys_kernel<kHeadDim, T>,
         {.name = "keys",
          .grid = {.x = blocks, .y = static_cast<unsigned>(shape.batch * shape.kv_heads)},
          .block = {.x = kThreads},
          .shared_bytes = Tiles<kHeadDim, T>::kBytes,
          .queue = queue},
         problem);
  launch(queries_kernel<kHeadDim, T>,
         {.name = "queries",
          .grid = {.x = blocks, .y = static_cast<unsigned>(shape.heads())},
          .block = {.x = kThreads},
          .shared_bytes = Tiles<kHeadDim, T>::kBytes,
          .queue = queue},
         problem);
}

template <typename T>
void launch_tensor_cores(const ProblemOf<T>& problem, const Queue& queue) {
  launch_delta(problem, queue);
  if (problem.shape.head_dim <= 64) {
    launch_both<64>(problem, queue);
  } else {
    launch_both<128>(problem, queue);
  }
}

}  // namespace

template <>
void tensor_cores<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_tensor_cores(problem, queue);
}

template <>
void tensor_cores_f16<kExecutor>(const ProblemOf<half>& problem, const Queue& queue) {
  launch_tensor_cores(problem, queue);
}

}  // namespace ultra::kernels::attention_backward_bf16
