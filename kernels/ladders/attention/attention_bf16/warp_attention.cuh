#pragma once
/// @file
/// What all rungs of attention_bf16 do alike: a warp's online softmax on the accumulators of
/// mma.sync, and the store of its rows. How tiles get into shared memory and from there into
/// registers is the rungs'.

#include <cmath>

#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"
#include "kernels/simt/fast_math.cuh"
#include "kernels/simt/matrix_tiles.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using attention::Shape;
using simt::bf16;

constexpr int kRowTiles = 2;                              // of 16 queries, of each warp
constexpr int kThreads = 128;                             // of a block
constexpr int kQueries = kThreads / 32 * 16 * kRowTiles;  // of a block
constexpr int kBlocks = 2;                                // that shall fit a multiprocessor at once
constexpr int kChunk = 8;                                 // elements of one access of 16 bytes
constexpr float kLog2E = 1.44269504F;                     // log2(e)
constexpr float kLogOf2 = 0.693147181F;                   // log(2)

// Keys of a tile: as many as the registers have scores for, beside a row of kHeadDim sums.
template <int kHeadDim>
constexpr int kKeys = kHeadDim <= 64 ? 64 : 32;

// Scores of a warp's tile, as mma.sync leaves them; element e of [m][n] belongs to query
// m * 16 + g + e / 2 * 8 and key n * 8 + 2 t + e % 2.
template <int kTiles, int kColumns>
using Scores = float[kTiles][kColumns / 8][4];

// Weights as mma.sync takes them from the left: [m][step of 16 keys].
template <int kTiles, int kColumns>
using Weights = unsigned[kTiles][kColumns / 16][4];

// A part of rows of o: columns n * 8 + 2 t + e % 2, rows as for Scores.
template <int kHeadDim>
using Output = float[kRowTiles][kHeadDim / 8][4];

__device__ __forceinline__ int lane_group() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int lane_in_group() { return static_cast<int>(threadIdx.x) % 4; }

// The first query of this warp in the block.
template <int kTiles>
__device__ __forceinline__ int first_warp_row() {
  return static_cast<int>(threadIdx.x) / 32 * (16 * kTiles);
}

// How many keys a query sees.
__device__ __forceinline__ int keys_of_query(const Shape& shape, int query) {
  return shape.causal && query < shape.seq_len ? query + 1 : shape.seq_len;
}

// Rows of head_dim elements from a token's to the next one's, where a sequence has `heads` heads.
__device__ __forceinline__ int token_step(const Shape& shape, int heads) {
  return shape.tokens_first ? heads : 1;
}

// Where a sequence's rows are: heads, counted over all sequences, are `of_head` rows apart.
struct Rows {
  int of_head;
  int begin;

  // The first row of a head in what has a number for each row: lse, delta.
  [[nodiscard]] __device__ __forceinline__ int first_of(int head) const {
    return head * of_head + begin;
  }
  // Its first row in a tensor of `heads` heads in each sequence.
  [[nodiscard]] __device__ __forceinline__ int first_in(const Shape& shape, int heads,
                                                        int head) const {
    return shape.tokens_first ? first_of(head / heads) * heads + head % heads : first_of(head);
  }
  // The first element of a token's row there.
  [[nodiscard]] __device__ __forceinline__ std::size_t element(const Shape& shape, int heads,
                                                               int head, int token) const {
    const int row = first_in(shape, heads, head) + token * token_step(shape, heads);
    return std::size_t(row) * shape.head_dim;
  }
  // From a head's first row to the next one's, of the same sequence.
  [[nodiscard]] __device__ __forceinline__ int head_step(const Shape& shape) const {
    return shape.tokens_first ? 1 : of_head;
  }
};

// Which queries a block works on.
struct BlockSite {
  int first_query;
  int first_row;  // of the head, in lse
  int first_q;    // of the head, among the rows of q and of o
  int first_k;    // of the head, among the rows of k and of v
  int most_keys;  // that any of the block's queries sees
};

// Tile number `tile` of a head's queries, `queries` of them, of a sequence with the shape's seq_len.
__device__ __forceinline__ BlockSite site_of(const Shape& shape, const Rows& rows, int head,
                                             int tile, int queries) {
  const int first_query = tile * queries;
  return {first_query, rows.first_of(head),
          rows.first_in(shape, shape.kv_heads * shape.group, head),
          rows.first_in(shape, shape.kv_heads, head / shape.group),
          keys_of_query(shape, first_query + queries - 1)};
}

template <int kBlockQueries>
__device__ __forceinline__ BlockSite site_of_tile(const Shape& shape, int head, int tile) {
  return site_of(shape, {shape.seq_len, 0}, head, tile, kBlockQueries);
}

// Long rows first.
template <int kBlockQueries = kQueries>
__device__ __forceinline__ BlockSite site_of_block(const Shape& shape) {
  return site_of_tile<kBlockQueries>(shape, blockIdx.y, gridDim.x - 1 - blockIdx.x);
}

// Sets the scores of keys that a query does not see to -inf. `query` is the warp's first one.
template <int kTilesOfRows, int kKeyTiles>
__device__ __forceinline__ void mask(float (&scores)[kTilesOfRows][kKeyTiles][4],
                                     const Shape& shape, int query, int first_key) {
  const int own_key = first_key + 2 * lane_in_group();
#pragma unroll
  for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int keys = keys_of_query(shape, query + m * 16 + lane_group() + e / 2 * 8);
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        scores[m][n][e] = own_key + n * 8 + e % 2 < keys ? scores[m][n][e] : -INFINITY;
      }
    }
  }
}

// The state of a lane's rows, two of each tile of 16: the largest score, times factor, and the sum
// of the weights of this lane's keys. Every row sees a key of the first tile: the largest is finite
// from then on.
template <int kTilesOfRows>
class OnlineSoftmaxOf {
 public:
  __device__ __forceinline__ OnlineSoftmaxOf() {
#pragma unroll
    for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        largest_[m][half] = -INFINITY;
        sum_[m][half] = 0.0F;
      }
    }
  }

  // Turns raw scores into weights 2^(factor score - largest), and shrinks the output so far.
  template <int kKeyTiles, int kColumnTiles>
  __device__ __forceinline__ void add(float (&scores)[kTilesOfRows][kKeyTiles][4],
                                      float (&output)[kTilesOfRows][kColumnTiles][4],
                                      float factor) {
#pragma unroll
    for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float shrink = raise_largest(scores, m, half, factor);
        shrink_row(output, m, half, shrink);
        weigh_row(scores, m, half, factor);
      }
    }
  }

  // The same in two parts, for an output that is not at hand yet: weigh() says what it shrinks by.
  template <int kKeyTiles>
  __device__ __forceinline__ void weigh(float (&scores)[kTilesOfRows][kKeyTiles][4], float factor,
                                        float (&shrink)[kTilesOfRows][2]) {
#pragma unroll
    for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        shrink[m][half] = raise_largest(scores, m, half, factor);
        weigh_row(scores, m, half, factor);
      }
    }
  }

  template <int kColumnTiles>
  __device__ __forceinline__ static void shrink_rows(float (&output)[kTilesOfRows][kColumnTiles][4],
                                                     const float (&shrink)[kTilesOfRows][2]) {
#pragma unroll
    for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        shrink_row(output, m, half, shrink[m][half]);
      }
    }
  }

  // Never, NaN included; but only who has all weights of all tiles can tell.
  __device__ __forceinline__ bool has_negative_sum() const {
    bool is_negative = false;
#pragma unroll
    for (int m = 0; m < kTilesOfRows; ++m) {
      is_negative = is_negative || sum_[m][0] < 0.0F || sum_[m][1] < 0.0F;
    }
    return is_negative;
  }

  // The sum of a row's weights; all lanes of the warp call it.
  __device__ __forceinline__ float sum_of_row(int m, int half) const {
    float sum = sum_[m][half];
    sum += __shfl_xor_sync(simt::kAllLanes, sum, 1);
    sum += __shfl_xor_sync(simt::kAllLanes, sum, 2);
    return sum;
  }

  // The logarithm of the softmax's denominator.
  __device__ __forceinline__ float lse_of_row(int m, int half, float sum) const {
    return largest_[m][half] * kLogOf2 + logf(sum);
  }

 private:
  // Takes a tile's scores into account, and returns what weights so far shrink by.
  template <int kKeyTiles>
  __device__ __forceinline__ float raise_largest(const float (&scores)[kTilesOfRows][kKeyTiles][4],
                                                 int m, int half, float factor) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      largest = fmaxf(largest, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
    }
    // The four lanes of a group share a row.
    largest = fmaxf(largest, __shfl_xor_sync(simt::kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(simt::kAllLanes, largest, 2));
    const float before = largest_[m][half];
    largest = fmaxf(before, largest * factor);
    largest_[m][half] = largest;
    const float shrink = simt::exp2_flushed(before - largest);
    sum_[m][half] *= shrink;
    return shrink;
  }

  template <int kColumnTiles>
  __device__ __forceinline__ static void shrink_row(float (&output)[kTilesOfRows][kColumnTiles][4],
                                                    int m, int half, float shrink) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      output[m][n][2 * half] *= shrink;
      output[m][n][2 * half + 1] *= shrink;
    }
  }

  template <int kKeyTiles>
  __device__ __forceinline__ void weigh_row(float (&scores)[kTilesOfRows][kKeyTiles][4], int m,
                                            int half, float factor) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        scores[m][n][e] = simt::exp2_flushed(scores[m][n][e] * factor - largest_[m][half]);
        sum_[m][half] += scores[m][n][e];
      }
    }
  }

  float largest_[kTilesOfRows][2];
  float sum_[kTilesOfRows][2];
};

using OnlineSoftmax = OnlineSoftmaxOf<kRowTiles>;

// Weights rounded to T. The accumulators of two neighbouring tiles of 8 keys are, lane by lane, what
// mma.sync takes from the left for these 16 keys: no lane needs another's.
template <typename T = bf16, int kTilesOfRows, int kSteps, int kTiles>
__device__ __forceinline__ void pack_weights(unsigned (&weights)[kTilesOfRows][kSteps][4],
                                             const float (&scores)[kTilesOfRows][kTiles][4]) {
#pragma unroll
  for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const float* const pair = &scores[m][2 * step + part / 2][part % 2 * 2];
        weights[m][step][part] = simt::pack_pair<T>(pair[0], pair[1]);
      }
    }
  }
}

// Stores two neighbours of a row.
template <typename T>
__device__ __forceinline__ void store_pair(T* target, float left, float right) {
  simt::stg(reinterpret_cast<unsigned*>(target), simt::pack_pair<T>(left, right));
}
__device__ __forceinline__ void store_pair(float* target, float left, float right) {
  simt::stg(reinterpret_cast<simt::Pack<float, 2>*>(target), {left, right});
}

// Divides by the sums and stores o, two elements at once, and lse. kMayBeWide: whether wide_o is asked for.
template <int kHeadDim, bool kMayBeWide = false, typename T, int kTilesOfRows>
__device__ __forceinline__ void store_rows(const ProblemOf<T>& problem, const BlockSite& site,
                                           const float (&output)[kTilesOfRows][kHeadDim / 8][4],
                                           const OnlineSoftmaxOf<kTilesOfRows>& softmax) {
  const Shape& shape = problem.shape;
  const int step = token_step(shape, shape.kv_heads * shape.group);
#pragma unroll
  for (int m = 0; m < kTilesOfRows; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = softmax.sum_of_row(m, half);
      const float factor = 1.0F / sum;
      const int query =
          site.first_query + first_warp_row<kTilesOfRows>() + m * 16 + lane_group() + half * 8;
      const std::size_t first = std::size_t(site.first_q + query * step) * shape.head_dim;
      if (query < shape.seq_len) {
        if (lane_in_group() == 0) {
          simt::stg(&problem.lse[site.first_row + query], softmax.lse_of_row(m, half, sum));
        }
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
          if (n * 8 < shape.head_dim) {
            const std::size_t place = first + n * 8 + 2 * lane_in_group();
            const float left = output[m][n][2 * half] * factor;
            const float right = output[m][n][2 * half + 1] * factor;
            if (kMayBeWide && problem.wide_o != nullptr) {
              store_pair(&problem.wide_o[place], left, right);
            } else {
              store_pair(&problem.o[place], left, right);
            }
          }
        }
      }
    }
  }
}

// The launch of rungs 1 to 3; `rows` of tiles are in shared memory.
template <int kHeadDim, typename T>
simt::Config launch_of(const ProblemOf<T>& problem, const simt::Queue& queue, const char* name,
                       std::size_t rows) {
  const Shape& shape = problem.shape;
  return {.name = name,
          .grid = {.x = simt::ceil_div(static_cast<std::size_t>(shape.seq_len), kQueries),
                   .y = static_cast<unsigned>(shape.heads())},
          .block = {.x = kThreads},
          .shared_bytes = rows * kHeadDim * sizeof(T),
          .queue = queue};
}

}  // namespace
}  // namespace ultra::kernels::attention_bf16
