// Rung 2: no tile in which nobody sees anything.
//
// Idea:   documents lie one behind the other, so what 128 neighbouring queries see is a range: from
//         where the first one's document begins to what the last one sees. The block walks that.
// Gain:   tiles of scores as many as documents need, not as packs would. The mask stays.
// Limit:  blocks whose queries belong to several documents multiply each with the others' keys.

#include "kernels/ladders/attention/attention_varlen/document_mask.cuh"

namespace ultra::kernels::attention_varlen {
namespace {

// [region bounded]
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kBlocks) bounded_kernel(const Varlen problem) {
  __shared__ KeyRange ranges[kQueries];
  const BlockSite site = site_of_block(problem.pack.shape);
  const int behind = site.first_query + kQueries;
  const int tokens = problem.pack.shape.seq_len;
  const int last_query = (behind < tokens ? behind : tokens) - 1;
  const KeyRange seen = {keys_of(problem, site.first_query).first,
                         keys_of(problem, last_query).end};
  const MaskOfDocuments<kHeadDim> hide(problem, ranges, site.first_query);
  Output<kHeadDim> output = {};
  OnlineSoftmax softmax;
  attend_in_background<kHeadDim, 1>(output, softmax, problem.pack, site, seen, hide);
  store_rows<kHeadDim>(problem.pack, site_of_block(problem.pack.shape), output, softmax);
}
// [/region]

}  // namespace

template <>
void bounded<kExecutor>(const Varlen& problem, const Queue& queue) {
  if (problem.pack.shape.head_dim <= 64) {
    launch(bounded_kernel<64>, launch_of_pack<64>(problem, queue, "bounded"), problem);
  } else {
    launch(bounded_kernel<128>, launch_of_pack<128>(problem, queue, "bounded"), problem);
  }
}

}  // namespace ultra::kernels::attention_varlen
