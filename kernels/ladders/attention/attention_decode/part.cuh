#pragma once
/// @file
/// A block's work: some heads of queries against a range of one sequence's keys, in three passes
/// with the scores in shared memory. Sixteen lanes have a row of 128 elements, eight each.

#include <cmath>

#include "kernels/ladders/attention/attention_decode/attention_decode.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_decode {
namespace {

using namespace simt;

constexpr int kThreads = 128;
constexpr int kChunk = 8;                       // elements of an access
constexpr int kLanes = kMostHeadDim / kChunk;   // of a row
constexpr int kRowsAtOnce = kThreads / kLanes;  // keys or values
constexpr int kAhead = 4;  // rows of a thread whose loads are under way together
constexpr int kWarps = kThreads / 32;

// Which heads and keys a block has.
struct Part {
  int sequence;
  int kv_head;
  int first_head;  // of queries, among all
  int first_key;
  int end_key;
};

// pages_of() and parts_of() for kernels.
__device__ __forceinline__ int count_pages(int tokens) { return (tokens + kPage - 1) / kPage; }
__device__ __forceinline__ int count_parts(int tokens) { return (tokens + kPart - 1) / kPart; }

// Eight elements as floats.
__device__ __forceinline__ void load_chunk(float (&values)[kChunk], const bf16* row) {
  const uint4 packed = ldg(reinterpret_cast<const uint4*>(row));
  const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {  // a bf16 is the upper half of a float
    const unsigned bits = i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000U;
    values[i] = __builtin_bit_cast(float, bits);
  }
}

// [region page]
// Where the row of a token begins in k and v.
__device__ __forceinline__ std::size_t row_of(const Problem& problem, const Part& part, int token) {
  const int page =
      ldg(&problem.pages[part.sequence * count_pages(problem.most_tokens) + token / kPage]);
  const std::size_t row = (std::size_t(page) * problem.kv_heads + part.kv_head) * kPage;
  return (row + token % kPage) * problem.head_dim;
}
// [/region]

// Pass 1: the scores of all keys, [kHeads, keys] in shared memory.
template <int kHeads>
__device__ __forceinline__ void score_keys(float* scores, const Problem& problem,
                                           const Part& part) {
  const int column = static_cast<int>(threadIdx.x) % kLanes * kChunk;
  const bool has_column = column < problem.head_dim;
  const int keys = part.end_key - part.first_key;
  float q[kHeads][kChunk] = {};
#pragma unroll
  for (int head = 0; head < kHeads; ++head) {
    if (has_column && head < problem.group) {
      const std::size_t row =
          std::size_t(part.sequence) * problem.kv_heads * problem.group + part.first_head + head;
      load_chunk(q[head], &problem.q[row * problem.head_dim + column]);
    }
  }
  const float scale = rsqrtf(static_cast<float>(problem.head_dim));
  for (int first = 0; first < keys; first += kAhead * kRowsAtOnce) {  // all lanes take part
    float k[kAhead][kChunk] = {};
    const int first_own = first + static_cast<int>(threadIdx.x) / kLanes;
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int own = first_own + ahead * kRowsAtOnce;
      if (own < keys && has_column) {
        load_chunk(k[ahead], &problem.k[row_of(problem, part, part.first_key + own) + column]);
      }
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int own = first_own + ahead * kRowsAtOnce;
#pragma unroll
      for (int head = 0; head < kHeads; ++head) {
        float sum = 0.0F;
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          sum += q[head][i] * k[ahead][i];
        }
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) {
          sum += __shfl_xor_sync(kAllLanes, sum, distance);
        }
        if (column == 0 && own < keys) {
          sts(&scores[head * keys + own], sum * scale);
        }
      }
    }
  }
}

// Pass 2: scores become weights of a softmax over the part; a warp has a head. lses: [kHeads].
template <int kHeads>
__device__ __forceinline__ void weigh(float* scores, float* lses, int keys) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < kHeads; head += kWarps) {
    float* const own = &scores[head * keys];
    float largest = -INFINITY;
    for (int key = lane; key < keys; key += 32) {
      largest = fmaxf(largest, lds(&own[key]));
    }
    largest = warp_max(largest);
    float sum = 0.0F;
    for (int key = lane; key < keys; key += 32) {
      const float weight = expf(lds(&own[key]) - largest);
      sts(&own[key], weight);
      sum += weight;
    }
    sum = warp_sum(sum);
    for (int key = lane; key < keys; key += 32) {
      const float weight = lds(&own[key]);
      sts(&own[key], weight / sum);
    }
    if (lane == 0) {
      sts(&lses[head], largest + logf(sum));
    }
  }
}

// Pass 3: sums of values times weights; `give(head, column, sums)` gets eight columns of a head.
// partials: [kHeads, kRowsAtOnce, kMostHeadDim] in shared memory.
template <int kHeads, typename Give>
__device__ __forceinline__ void add_values(const float* weights, float* partials,
                                           const Problem& problem, const Part& part,
                                           const Give& give) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int own_row = static_cast<int>(threadIdx.x) / kLanes;
  const bool has_column = lane * kChunk < problem.head_dim;
  const int keys = part.end_key - part.first_key;
  float sums[kHeads][kChunk] = {};
  for (int first = own_row; first < keys && has_column; first += kAhead * kRowsAtOnce) {
    float v[kAhead][kChunk] = {};
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int key = first + ahead * kRowsAtOnce;
      if (key < keys) {
        load_chunk(v[ahead],
                   &problem.v[row_of(problem, part, part.first_key + key) + lane * kChunk]);
      }
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int key = first + ahead * kRowsAtOnce;
#pragma unroll
      for (int head = 0; head < kHeads && key < keys; ++head) {
        const float weight = lds(&weights[head * keys + key]);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          sums[head][i] += weight * v[ahead][i];
        }
      }
    }
  }
#pragma unroll
  for (int head = 0; head < kHeads; ++head) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {  // neighbours among lanes: no two in one bank
      sts(&partials[((head * kRowsAtOnce + own_row) * kChunk + i) * kLanes + lane], sums[head][i]);
    }
  }
  __syncthreads();  // else a thread adds what others have not stored
  for (int index = static_cast<int>(threadIdx.x); index < kHeads * kMostHeadDim;
       index += kThreads) {
    const int head = index / kMostHeadDim;
    const int column = index % kMostHeadDim;
    float sum = 0.0F;
    for (int row = 0; row < kRowsAtOnce; ++row) {
      const int place = (head * kRowsAtOnce + row) * kMostHeadDim;
      sum += lds(&partials[place + column % kChunk * kLanes + column / kChunk]);
    }
    if (head < problem.group && column < problem.head_dim) {
      give(head, column, sum);
    }
  }
}

// Shared memory of a block: partials, logarithms, scores of `keys` keys.
template <int kHeads>
constexpr std::size_t shared_bytes(int keys) {
  return sizeof(float) * kHeads *
         (static_cast<std::size_t>(kRowsAtOnce) * kMostHeadDim + 1 +
          static_cast<std::size_t>(keys));
}

// All three passes. `give` as for add_values(); `give_lse(head, lse)` is called by one thread each.
template <int kHeads, typename Give, typename GiveLse>
__device__ __forceinline__ void attend(const Problem& problem, const Part& part, const Give& give,
                                       const GiveLse& give_lse) {
  float* const partials = dynamic_shared<float>();
  float* const lses = &partials[kHeads * kRowsAtOnce * kMostHeadDim];
  float* const scores = &lses[kHeads];
  score_keys<kHeads>(scores, problem, part);
  __syncthreads();  // else a warp weighs scores that others have not stored
  weigh<kHeads>(scores, lses, part.end_key - part.first_key);
  __syncthreads();  // else a thread multiplies weights that others have not stored
  add_values<kHeads>(scores, partials, problem, part, give);
  const int head = static_cast<int>(threadIdx.x);
  if (head < kHeads && head < problem.group) {
    give_lse(head, lds(&lses[head]));
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_decode
