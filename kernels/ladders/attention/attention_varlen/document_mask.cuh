#pragma once
/// @file
/// The mask of a pack, for rungs whose tiles do not end where documents do.

#include "kernels/ladders/attention/attention_bf16/pipelined_attention.cuh"
#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_varlen {
namespace {

using namespace simt;
using namespace attention_bf16;
using Varlen = attention_varlen::Problem;
using attention::Shape;

// What a hidden score becomes. Not -infinity: a tile may hide all keys of a query, and the softmax
// would measure infinity against itself. Weights of such a tile are 1, and the first visible score
// shrinks them to 0. A power of 2, so that its product with the scale has no rounding.
constexpr float kHidden = -0x1p100F;

// The keys that query `query` of the pack sees; behind the pack, those of its last query. Neither
// end of the range falls from one query to the next.
__device__ __forceinline__ KeyRange keys_of(const Varlen& problem, int query) {
  const Shape& shape = problem.pack.shape;
  query = query < shape.seq_len ? query : shape.seq_len - 1;
  const int document = ldg(&problem.document_of[query]);
  const int first = ldg(&problem.begins[document]);
  const int end = shape.causal ? query + 1 : ldg(&problem.begins[document + 1]);
  return {first, end};
}

// Hides other documents' keys, and later ones. What the block's queries see waits in shared memory:
// registers are full.
template <int kHeadDim>
class MaskOfDocuments {
 public:
  // `seen` is [kQueries] of shared memory. Whoever uses the mask waits for the block first.
  __device__ __forceinline__ MaskOfDocuments(const Varlen& problem, KeyRange* seen, int first_query)
      : seen_(seen) {
    static_assert(kThreads == kQueries);
    sts(&seen[threadIdx.x], keys_of(problem, first_query + static_cast<int>(threadIdx.x)));
  }

  __device__ __forceinline__ void operator()(Scores<kRowTiles, kKeys<kHeadDim>>& scores,
                                             int /*query*/, int key) const {
    const KeyRange first = lds(&seen_[first_warp_row<kRowTiles>()]);
    const KeyRange last = lds(&seen_[first_warp_row<kRowTiles>() + 16 * kRowTiles - 1]);
    if (last.first <= key && key + kKeys<kHeadDim> <= first.end) {
      return;  // the warp's queries see all of the tile
    }
    const int own_key = key + 2 * lane_in_group();
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = first_warp_row<kRowTiles>() + m * 16 + lane_group() + e / 2 * 8;
        const KeyRange seen = lds(&seen_[row]);
        const int behind_first = own_key + e % 2 - seen.first;
        const auto count = static_cast<unsigned>(seen.end - seen.first);
#pragma unroll
        for (int n = 0; n < kKeys<kHeadDim> / 8; ++n) {
          const bool is_seen = static_cast<unsigned>(behind_first + n * 8) < count;
          scores[m][n][e] = is_seen ? scores[m][n][e] : kHidden;
        }
      }
    }
  }

 private:
  const KeyRange* seen_;
};

// The launch of rungs 1 and 2: tiles of the pack.
template <int kHeadDim>
Config launch_of_pack(const Varlen& problem, const Queue& queue, const char* name) {
  return launch_of<kHeadDim>(problem.pack, queue, name, kPipelinedRows<kHeadDim>);
}

}  // namespace
}  // namespace ultra::kernels::attention_varlen
