#pragma once
/// @file
/// A block's queries against a range of keys, whose tiles are copied in the background: rung 3 of
/// attention_bf16 as a function. Which keys a query sees is the caller's.

#include "kernels/ladders/attention/attention_bf16/background_copies.cuh"
#include "kernels/ladders/attention/attention_bf16/swizzled_tiles.cuh"
#include "kernels/simt/async_copy.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

constexpr int kStages = 2;

// Rows of tiles that it has in shared memory.
template <int kHeadDim>
constexpr int kPipelinedRows = kQueries + kStages * 2 * kKeys<kHeadDim>;

// Keys of a head, by their numbers in it.
struct KeyRange {
  int first;
  int end;
};

// Hides what a query does not see by the shape alone: behind the sequence, or above the diagonal.
template <int kHeadDim>
struct MaskOfShape {
  const Shape& shape;

  __device__ __forceinline__ void operator()(Scores<kRowTiles, kKeys<kHeadDim>>& scores, int query,
                                             int key) const {
    if (key + kKeys < kHeadDim >> keys_of_query(shape, query)) {
      mask(scores, shape, query, key);
    }
  }
};

// A warp's rows of weights times values, and their softmax, for store_rows(). `hide(scores, query,
// key)` masks a tile of scores; the warp's first query and the tile's first key are its arguments.
// kAtOnce as for copy_tile().
template <int kHeadDim, int kAtOnce = kKeys<kHeadDim>, typename T, typename Mask>
__device__ __forceinline__ void attend_in_background(Output<kHeadDim>& output,
                                                     OnlineSoftmax& softmax,
                                                     const ProblemOf<T>& problem,
                                                     const BlockSite& site, const KeyRange& keys,
                                                     const Mask& hide) {
  const Shape& shape = problem.shape;
  const int columns = shape.head_dim;
  const int q_step = token_step(shape, shape.kv_heads * shape.group);
  const int k_step = token_step(shape, shape.kv_heads);
  T* const q_tile = simt::dynamic_shared<T>();
  T* const stages = &q_tile[kQueries * kHeadDim];  // keys, then values, of each stage
  const auto copy_keys_and_values = [&](int stage, int key) {
    T* const k_tile = &stages[stage * 2 * kKeys<kHeadDim> * kHeadDim];
    const std::size_t first = std::size_t(site.first_k + key * k_step) * columns;
    copy_tile<kKeys<kHeadDim>, kHeadDim, kThreads, kAtOnce>(
        k_tile, &problem.k[first], shape.seq_len - key, columns, k_step * columns);
    copy_tile<kKeys<kHeadDim>, kHeadDim, kThreads, kAtOnce>(&k_tile[kKeys<kHeadDim> * kHeadDim],
                                                            &problem.v[first], shape.seq_len - key,
                                                            columns, k_step * columns);
    simt::commit_copies();
  };

  copy_tile<kQueries, kHeadDim, kThreads>(
      q_tile, &problem.q[std::size_t(site.first_q + site.first_query * q_step) * columns],
      shape.seq_len - site.first_query, columns, q_step * columns);
  copy_keys_and_values(0, keys.first);
  int stage = 0;
  for (int key = keys.first; key < keys.end; key += kKeys<kHeadDim>) {
    simt::wait_copies<0>();
    // Without it, a warp multiplies what another's copies have not brought yet; and the copies below
    // overwrite what another still multiplies.
    __syncthreads();
    if (key + kKeys<kHeadDim> < keys.end) {
      copy_keys_and_values(1 - stage, key + kKeys<kHeadDim>);
    }
    const T* const k_tile = &stages[stage * 2 * kKeys<kHeadDim> * kHeadDim];
    Scores<kRowTiles, kKeys<kHeadDim>> scores = {};
    multiply_queries<kHeadDim>(scores, q_tile, k_tile);
    hide(scores, site.first_query + first_warp_row<kRowTiles>(), key);
    softmax.add(scores, output, shape.scale * kLog2E);
    Weights<kRowTiles, kKeys<kHeadDim>> weights;
    pack_weights<T>(weights, scores);
    multiply_weights<kHeadDim>(output, weights, &k_tile[kKeys<kHeadDim> * kHeadDim]);
    stage = 1 - stage;
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_bf16
