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

#include "kernels/attention_bf16/background_copies.cuh"
#include "kernels/attention_bf16/swizzled_tiles.cuh"
#include "kernels/simt/async_copy.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using namespace simt;

constexpr int kStages = 2;

// kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kBlocks) pipelined_kernel(const Problem problem) {
  const Shape& shape = problem.shape;
  const int columns = shape.head_dim;
  const Place place = place_of_block(shape);
  bf16* const q_tile = dynamic_shared<bf16>();
  bf16* const stages = &q_tile[kQueries * kHeadDim];  // keys, then values, of each stage
  const auto copy_keys_and_values = [&](int stage, int key) {
    bf16* const k_tile = &stages[stage * 2 * kKeys<kHeadDim> * kHeadDim];
    const std::size_t first = (place.first_key_row + key) * columns;
    copy_tile<kKeys<kHeadDim>, kHeadDim, kThreads>(k_tile, &problem.k[first], shape.seq_len - key,
                                                   columns);
    copy_tile<kKeys<kHeadDim>, kHeadDim, kThreads>(&k_tile[kKeys<kHeadDim> * kHeadDim],
                                                   &problem.v[first], shape.seq_len - key, columns);
    commit_copies();
  };

  copy_tile<kQueries, kHeadDim, kThreads>(
      q_tile, &problem.q[(place.first_row + place.first_query) * columns],
      shape.seq_len - place.first_query, columns);
  copy_keys_and_values(0, 0);
  Output<kHeadDim> output = {};
  OnlineSoftmax softmax;
  int stage = 0;
  for (int key = 0; key < place.most_keys; key += kKeys<kHeadDim>) {
    wait_copies<0>();
    // Without it, a warp multiplies what another's copies have not brought yet; and the copies below
    // overwrite what another still multiplies.
    __syncthreads();
    if (key + kKeys<kHeadDim> < place.most_keys) {
      copy_keys_and_values(1 - stage, key + kKeys<kHeadDim>);
    }
    const bf16* const k_tile = &stages[stage * 2 * kKeys<kHeadDim> * kHeadDim];
    attend<kHeadDim>(output, softmax, q_tile, k_tile, &k_tile[kKeys<kHeadDim> * kHeadDim], shape,
                     place.first_query + first_warp_row<kRowTiles>(), key);
    stage = 1 - stage;
  }
  store_rows<kHeadDim>(problem, place, output, softmax);
}

template <int kHeadDim>
void launch_pipelined(const Problem& problem, const Queue& queue) {
  launch(pipelined_kernel<kHeadDim>,
         launch_of<kHeadDim>(problem, queue, "pipelined", kQueries + kStages * 2 * kKeys<kHeadDim>),
         problem);
}

}  // namespace

template <>
void pipelined<kSide>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_pipelined<64>(problem, queue);
  } else {
    launch_pipelined<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_bf16
