#pragma once
/// @file
/// The sum of d_q over blocks, in a fixed order: two warps of each block write for its multipliers.
///
/// Each tile of queries has a turn: how many blocks have added to it. A block waits until it is its
/// own turn. The first one stores its part, later ones add theirs, the last one (of the first keys) adds
/// what is there to its own, and stores d_q in bf16. A block waits only for those that have begun
/// before it, which all are on the GPU: nobody waits for ever. In the emulator blocks run one after the
/// other, and nobody waits at all: it finds a wrong number of turns, but not a missing fence.

#include "kernels/hopper/vector_sum.cuh"
#include "kernels/ladders/attention/attention_backward_bf16/hopper/key_block.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

constexpr int kWritersName = 2;  // of their barrier

// Waits until `turns` blocks have added; one thread calls it, and a barrier of the writers follows.
__device__ __forceinline__ void wait_for_turn(unsigned* turn, unsigned turns) {
  while (atomicAdd(turn, 0U) != turns) {
  }
  __threadfence();  // without it, what others have added may be read before the turn
}

// Sums of a tile, four at once: a thread's of one or both warpgroups.
template <int kHeadDim>
constexpr int kQuadsOfTile = kBoxes<kHeadDim>* kQuads* kWarpgroup;

// Quad number `i` of a step's part of d_q: of rows of 64, both warpgroups have a part of it.
template <int kHeadDim>
__device__ __forceinline__ float4 part_of(const Shared<kHeadDim>& shared, int i) {
  const float4* const parts = &shared.d_q[0][0][0];
  float4 part = simt::lds(&parts[i]);
  if constexpr (kBoxes<kHeadDim> == 1) {
    const float4 other = simt::lds(&parts[i + kQuads * kWarpgroup]);
    part = make_float4(part.x + other.x, part.y + other.y, part.z + other.z, part.w + other.w);
  }
  return part;
}

// Stores quad number `i` of a tile as d_q: two elements of each of two rows.
__device__ __forceinline__ void store_d_q(const Problem& problem, const QueryTile& at, int i,
                                          const float4& sums) {
  const Shape& shape = problem.shape;
  const int box = i / (kQuads * kWarpgroup);
  const int quad = i / kWarpgroup % kQuads;
  const int thread = i % kWarpgroup;
  const int column = box * kBoxColumns + quad * 8 + 2 * (thread % 4);
  const unsigned pairs[2] = {simt::pack_bf16(sums.x * shape.scale, sums.y * shape.scale),
                             simt::pack_bf16(sums.z * shape.scale, sums.w * shape.scale)};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = at.first_query + thread / 32 * 16 + thread % 32 / 4 + half * 8;
    if (query < shape.seq_len && column < shape.head_dim) {
      const std::size_t place = std::size_t(at.head) * shape.seq_len + query;
      simt::stg(reinterpret_cast<unsigned*>(&problem.d_q[place * shape.head_dim + column]),
                pairs[half]);
    }
  }
}

// Adds a tile's d_q, which lies in shared memory. `own` is the thread's number among the writers.
template <int kHeadDim>
__device__ __forceinline__ void add_d_q(const OrderedProblem& problem,
                                        const Shared<kHeadDim>& shared, const QueryTile& at,
                                        float4* sums, bool is_first, bool is_last, int own) {
#pragma unroll 1
  for (int i = own; i < kQuadsOfTile<kHeadDim>; i += kWriters) {
    float4 part = part_of(shared, i);
    if (is_last) {
      if (!is_first) {
        const float4 before = simt::ldg(&sums[i]);
        part =
            make_float4(before.x + part.x, before.y + part.y, before.z + part.z, before.w + part.w);
      }
      store_d_q(problem, at, i, part);
    } else if (is_first) {
      simt::stg(&sums[i], part);
    } else {
      add_vector(&sums[i], part);
    }
  }
}

// The writers' work: d_q of all steps.
template <int kHeadDim>
__device__ __forceinline__ void write_d_q(const OrderedProblem& problem, Shared<kHeadDim>& shared,
                                          const KeyBlock& keys, int own) {
  unsigned parity = 0;
  for (int step = 0; step < keys.steps(); ++step) {
    const QueryTile at = keys.at(step);
    const std::size_t tile = std::size_t(at.head) * keys.tiles + at.tile;
    unsigned* const turn = &problem.turns[1 + tile];
    const unsigned turns = keys.turn_at(at.tile);
    wait_for(shared.d_q_is_full, parity);
    parity ^= 1U;
    if (own == 0) {
      wait_for_turn(turn, turns);
    }
    __syncwarp();
    wait_at_named<kWriters>(kWritersName);  // without it, others add before the turn
    add_d_q<kHeadDim>(problem, shared, at,
                      reinterpret_cast<float4*>(problem.d_q_sums) + tile * kQuadsOfTile<kHeadDim>,
                      turns == 0, keys.block == 0, own);
    __syncwarp();
    release(shared.d_q_is_empty);
    wait_at_named<kWriters>(kWritersName);  // without it, others have not added yet
    if (own == 0) {
      __threadfence();  // without it, the turn may be passed before the sums are there
      atomicAdd(turn, 1U);
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_backward_bf16
