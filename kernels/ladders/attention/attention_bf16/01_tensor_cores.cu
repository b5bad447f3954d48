// Rung 1: flash attention on tensor cores.
//
// Idea:   both products are mma.sync in bf16 with sums in fp32. A score's accumulator is where the second
//         product wants its weight (Dao 2023, arXiv 2307.08691, section 3.3: warps split the queries), so
//         weights never leave the registers. Tiles lie in shared memory row by row; each lane loads the
//         elements that it owns.
// Gain:   16 x 8 x 16 multiply-adds per instruction; half the bytes of fp32; no exchange of weights.
// Limit:  loads of shared memory: the 8 groups of a warp load from 8 rows, which begin in the same bank:
//         8-way conflicts for queries and keys; values, needed in pairs of rows, in single elements.

#include "kernels/ladders/attention/attention_bf16/warp_attention.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using namespace simt;

// Copies `rows` rows of `columns` elements, contiguous in global memory, into a tile of kRows x kHeadDim
// and fills the rest with zeros.
template <int kRows, int kHeadDim>
__device__ __forceinline__ void load_tile(bf16* tile, const bf16* source, int rows, int columns) {
  constexpr int kChunks = kHeadDim / kChunk;
#pragma unroll 8
  for (int index = threadIdx.x; index < kRows * kChunks; index += kThreads) {
    const int row = index / kChunks;
    const int column = index % kChunks * kChunk;
    uint4 values = make_uint4(0, 0, 0, 0);
    if (row < rows && column < columns) {
      values = ldg(reinterpret_cast<const uint4*>(&source[row * columns + column]));
    }
    sts(reinterpret_cast<uint4*>(&tile[row * kHeadDim + column]), values);
  }
}

// Two neighbouring elements of a row.
__device__ __forceinline__ unsigned load_pair(const bf16* pair) {
  return lds(reinterpret_cast<const unsigned*>(pair));
}

// Two elements of one column, in neighbouring rows.
template <int kHeadDim>
__device__ __forceinline__ unsigned load_column_pair(const bf16* upper) {
  const unsigned low = lds(reinterpret_cast<const unsigned short*>(upper));
  const unsigned high = lds(reinterpret_cast<const unsigned short*>(&upper[kHeadDim]));
  return low | high << 16;
}

// scores = queries keys^T
template <int kHeadDim>
__device__ __forceinline__ void multiply_queries(Scores<kRowTiles, kKeys<kHeadDim>>& scores,
                                                 const bf16* q_tile, const bf16* k_tile) {
#pragma unroll
  for (int d = 0; d < kHeadDim; d += 16) {
    const int column = d + 2 * lane_in_group();
    unsigned queries[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int row = first_warp_row<kRowTiles>() + m * 16 + lane_group() + part % 2 * 8;
        queries[m][part] = load_pair(&q_tile[row * kHeadDim + column + part / 2 * 8]);
      }
    }
#pragma unroll
    for (int n = 0; n < kKeys<kHeadDim> / 8; ++n) {
      const bf16* const key = &k_tile[(n * 8 + lane_group()) * kHeadDim + column];
      unsigned keys[2];
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        keys[part] = load_pair(&key[part * 8]);
      }
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        multiply_accumulate(scores[m][n], queries[m], keys, scores[m][n]);
      }
    }
  }
}

// output += weights values
template <int kHeadDim>
__device__ __forceinline__ void multiply_weights(float (&output)[kRowTiles][kHeadDim / 8][4],
                                                 const Weights<kRowTiles, kKeys<kHeadDim>>& weights,
                                                 const bf16* v_tile) {
#pragma unroll
  for (int step = 0; step < kKeys<kHeadDim> / 16; ++step) {
    const int row = step * 16 + 2 * lane_in_group();
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const bf16* const value = &v_tile[row * kHeadDim + n * 8 + lane_group()];
      unsigned values[2];
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        values[part] = load_column_pair<kHeadDim>(&value[part * 8 * kHeadDim]);
      }
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        multiply_accumulate(output[m][n], weights[m][step], values, output[m][n]);
      }
    }
  }
}

// kHeadDim: the tiles' columns; those from head_dim on hold zeros.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kBlocks) tensor_cores_kernel(const Problem problem) {
  const Shape& shape = problem.shape;
  const int columns = shape.head_dim;
  const BlockSite site = site_of_block(shape);
  bf16* const q_tile = dynamic_shared<bf16>();
  bf16* const k_tile = &q_tile[kQueries * kHeadDim];
  bf16* const v_tile = &k_tile[kKeys<kHeadDim> * kHeadDim];

  load_tile<kQueries, kHeadDim>(q_tile,
                                &problem.q[std::size_t(site.first_q + site.first_query) * columns],
                                shape.seq_len - site.first_query, columns);
  const int query = site.first_query + first_warp_row<kRowTiles>();
  const int least_keys = keys_of_query(shape, query);
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
    Scores<kRowTiles, kKeys<kHeadDim>> scores = {};
    multiply_queries<kHeadDim>(scores, q_tile, k_tile);
    if (key + kKeys < kHeadDim >> least_keys) {
      mask(scores, shape, query, key);
    }
    softmax.add(scores, output, shape.scale * kLog2E);
    Weights<kRowTiles, kKeys<kHeadDim>> weights;
    pack_weights(weights, scores);
    multiply_weights<kHeadDim>(output, weights, v_tile);
  }
  store_rows<kHeadDim>(problem, site, output, softmax);
}

template <int kHeadDim>
void launch_tensor_cores(const Problem& problem, const Queue& queue) {
  launch(tensor_cores_kernel<kHeadDim>,
         launch_of<kHeadDim>(problem, queue, "tensor cores", kQueries + 2 * kKeys<kHeadDim>),
         problem);
}

}  // namespace

template <>
void tensor_cores<kExecutor>(const Problem& problem, const Queue& queue) {
  if (problem.shape.head_dim <= 64) {
    launch_tensor_cores<64>(problem, queue);
  } else {
    launch_tensor_cores<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_bf16
