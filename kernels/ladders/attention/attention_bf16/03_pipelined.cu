// Rung 3: copies in the background.
//
// Idea:   keys and values have two places. While the warps multiply one tile, cp.async copies the next
//         one into the other place, past the registers. A single barrier per tile says both that the tile
//         is complete and that nobody needs the place that the next copies go to.
// Gain:   the latency of global memory is behind the arithmetic of a whole tile; one barrier per tile
//         instead of two; no registers for copies.
// Limit:  the softmax: exponentials and their sums run while no tensor core does; warps of other blocks
//         on the multiprocessor fill the gaps in part. On an H100, mma.sync itself: wgmma has twice its
//         rate.

#include "kernels/ladders/attention/attention_bf16/pipelined_attention.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using namespace simt;

// kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim, typename T>
__global__ void __launch_bounds__(kThreads, kBlocks) pipelined_kernel(const ProblemOf<T> problem) {
  const BlockSite site = site_of_block(problem.shape);
  Output<kHeadDim> output = {};
  OnlineSoftmax softmax;
  attend_in_background<kHeadDim>(output, softmax, problem, site, {0, site.most_keys},
                                 MaskOfShape<kHeadDim>{problem.shape});
  store_rows<kHeadDim, true>(problem, site, output, softmax);
}

template <int kHeadDim, typename T>
void launch_rows(const ProblemOf<T>& problem, const Queue& queue) {
  launch(pipelined_kernel<kHeadDim, T>,
         launch_of<kHeadDim>(problem, queue, "pipelined", kPipelinedRows<kHeadDim>), problem);
}

template <typename T>
void launch_pipelined(const ProblemOf<T>& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_rows<64>(problem, queue);
  } else {
    launch_rows<128>(problem, queue);
  }
}

}  // namespace

template <>
void pipelined<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_pipelined(problem, queue);
}

template <>
void pipelined_f16<kExecutor>(const ProblemOf<half>& problem, const Queue& queue) {
  launch_pipelined(problem, queue);
}

}  // namespace ultra::kernels::attention_bf16
