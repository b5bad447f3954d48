// Rung 1: the pack as one sequence.
//
// Idea:   attention_bf16's third rung, with a mask that compares documents. What is hidden is
//         computed, and thrown away.
// Cost:   the tiles of a sequence as long as the pack (half of them where it is causal): the square
//         of all tokens, though a token sees its own document alone.
// Limit:  tiles of scores in which nobody sees anything. With 16 documents of equal lengths that
//         are 15 of 16.

#include "kernels/ladders/attention/attention_varlen/document_mask.cuh"

namespace ultra::kernels::attention_varlen {
namespace {

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kBlocks) masked_kernel(const Varlen problem) {
  __shared__ KeyRange ranges[kQueries];
  const BlockSite site = site_of_block(problem.pack.shape);
  const MaskOfDocuments<kHeadDim> hide(problem, ranges, site.first_query);
  Output<kHeadDim> output = {};
  OnlineSoftmax softmax;
  attend_in_background<kHeadDim, 1>(output, softmax, problem.pack, site, {0, site.most_keys}, hide);
  store_rows<kHeadDim>(problem.pack, site_of_block(problem.pack.shape), output, softmax);
}

}  // namespace

template <>
void masked<kExecutor>(const Varlen& problem, const Queue& queue) {
  if (problem.pack.shape.head_dim <= 64) {
    launch(masked_kernel<64>, launch_of_pack<64>(problem, queue, "masked"), problem);
  } else {
    launch(masked_kernel<128>, launch_of_pack<128>(problem, queue, "masked"), problem);
  }
}

}  // namespace ultra::kernels::attention_varlen
