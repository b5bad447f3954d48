// Rung 2: shared memory without conflicts, four matrices at once.
//
// Idea:   a chunk of 16 bytes lies at its place in the row, exclusive-or the row's number modulo 8. The
//         rows of a matrix are then in different banks, and ldmatrix loads four 8 x 8 matrices with one
//         instruction, each element to the lane that owns it; values are transposed on their way.
// Gain:   wavefronts 8 -> 1 per 128 bytes of queries and keys; for 16 x 16 values one instruction of 4
//         wavefronts instead of eight loads of single elements.
// Limit:  all warps wait for keys and values from global memory, at two barriers per tile.

#include "kernels/ladders/attention/attention_bf16/swizzled_tiles.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using namespace simt;

// Copies `rows` rows of `columns` elements, contiguous in global memory, into a swizzled tile of
// kRows x kHeadDim and fills the rest with zeros.
template <int kRows, int kHeadDim>
__device__ __forceinline__ void load_tile(bf16* tile, const bf16* source, int rows, int columns) {
  constexpr int kChunks = kHeadDim / kChunk;
#pragma unroll 8
  for (int index = threadIdx.x; index < kRows * kChunks; index += kThreads) {
    const int row = index / kChunks;
    const int chunk = index % kChunks;
    uint4 values = make_uint4(0, 0, 0, 0);
    if (row < rows && chunk * kChunk < columns) {
      values = ldg(reinterpret_cast<const uint4*>(&source[row * columns + chunk * kChunk]));
    }
    sts(reinterpret_cast<uint4*>(&tile[swizzled_index<kHeadDim>(row, chunk)]), values);
  }
}

// kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kBlocks) swizzled_kernel(const Problem problem) {
  const Shape& shape = problem.shape;
  const int columns = shape.head_dim;
  const BlockSite site = site_of_block(shape);
  bf16* const q_tile = dynamic_shared<bf16>();
  bf16* const k_tile = &q_tile[kQueries * kHeadDim];
  bf16* const v_tile = &k_tile[kKeys<kHeadDim> * kHeadDim];

  load_tile<kQueries, kHeadDim>(q_tile,
                                &problem.q[std::size_t(site.first_q + site.first_query) * columns],
                                shape.seq_len - site.first_query, columns);
  Output<kHeadDim> output = {};
  OnlineSoftmax softmax;
  for (int key = 0; key < site.most_keys; key += kKeys<kHeadDim>) {
    // Without it, keys and values overwrite some that other warps still multiply.
    __syncthreads();
    const std::size_t first = std::size_t(site.first_k + key) * columns;
    load_tile<kKeys<kHeadDim>, kHeadDim>(k_tile, &problem.k[first], shape.seq_len - key, columns);
    load_tile<kKeys<kHeadDim>, kHeadDim>(v_tile, &problem.v[first], shape.seq_len - key, columns);
    // Without it, a warp multiplies what another has not loaded yet.
    __syncthreads();
    attend<kHeadDim>(output, softmax, q_tile, k_tile, v_tile, shape,
                     site.first_query + first_warp_row<kRowTiles>(), key);
  }
  store_rows<kHeadDim>(problem, site, output, softmax);
}

template <int kHeadDim>
void launch_swizzled(const Problem& problem, const Queue& queue) {
  launch(swizzled_kernel<kHeadDim>,
         launch_of<kHeadDim>(problem, queue, "swizzled", kQueries + 2 * kKeys<kHeadDim>), problem);
}

}  // namespace

template <>
void swizzled<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_swizzled<64>(problem, queue);
  } else {
    launch_swizzled<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_bf16
