#pragma once
/// @file
/// The sum of d_q over blocks, in a fixed order: two warps of each block write for its multipliers.
///
/// Each tile of queries has a turn: how many blocks have added to it. A block waits until it is its
/// own turn. The first one stores its part, later ones add theirs; nobody reads the sums before all
/// have: a load would be waited for in every step. A kernel behind it rounds them. A block waits only
/// for those that have begun before it, which all are on the GPU: nobody waits for ever. In the emulator
/// blocks run one after the other, and nobody waits at all: it finds a wrong number of turns, but not a
/// missing fence.

#include "kernels/hopper/global_sums.cuh"
#include "kernels/ladders/attention/attention_backward_bf16/hopper/key_block.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

constexpr int kWritersName = 2;  // of their barrier
constexpr int kTogether = 4;     // loads from shared memory before the first of them is used

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

// Adds a tile's d_q, which lies in shared memory. `own` is the thread's number among the writers.
template <int kHeadDim>
__device__ __forceinline__ void add_d_q(const Shared<kHeadDim>& shared, float4* sums, bool is_first,
                                        int own) {
  static_assert(kQuadsOfTile<kHeadDim> % (kTogether * kWriters) == 0);
#pragma unroll 1
  for (int first = own; first < kQuadsOfTile<kHeadDim>; first += kTogether * kWriters) {
    float4 parts[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      parts[i] = part_of(shared, first + i * kWriters);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (is_first) {
        simt::stg(&sums[first + i * kWriters], parts[i]);
      } else {
        add_vector(&sums[first + i * kWriters], parts[i]);
      }
    }
  }
}

// The writers' work: d_q of all steps.
template <int kHeadDim, typename T>
__device__ __forceinline__ void write_d_q(const OrderedProblemOf<T>& problem,
                                          Shared<kHeadDim>& shared, const KeyBlock& keys, int own) {
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
    add_d_q<kHeadDim>(shared,
                      reinterpret_cast<float4*>(problem.d_q_sums) + tile * kQuadsOfTile<kHeadDim>,
                      turns == 0, own);
    __syncwarp();
    release(shared.d_q_is_empty);
    wait_at_named<kWriters>(kWritersName);  // without it, others have not added yet
    if (own == 32) {  // the other warp, while the first one looks for its next turn
      pass_turn(turn);
    }
  }
}

// Rounds a tile's sums, a block for each tile of queries and a thread for what one multiplying thread
// has had: two elements of each of two rows in each quad.
template <int kHeadDim, typename T>
__global__ void __launch_bounds__(kBoxes<kHeadDim>* kWarpgroup)
    round_kernel(const OrderedProblemOf<T> problem) {
  const Shape& shape = problem.shape;
  const int tiles = (shape.seq_len + kQueries - 1) / kQueries;
  const int head = static_cast<int>(blockIdx.x) / tiles;
  const int first_query = static_cast<int>(blockIdx.x) % tiles * kQueries;
  const int box = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  const int heads = shape.kv_heads * shape.group;
  const attention_bf16::Rows rows{shape.seq_len, 0};
  const float4* const sums = reinterpret_cast<const float4*>(problem.d_q_sums) +
                             std::size_t(blockIdx.x) * kQuadsOfTile<kHeadDim> +
                             box * kQuads * kWarpgroup + thread;
  float4 own[kQuads];
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    own[quad] = simt::ldg(&sums[quad * kWarpgroup]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first_query + thread / 32 * 16 + thread % 32 / 4 + half * 8;
    const std::size_t place = rows.element(shape, heads, head, query);
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const int column = box * kBoxColumns + quad * 8 + 2 * (thread % 4);
      if (query < shape.seq_len && column < shape.head_dim) {
        const float left = half == 0 ? own[quad].x : own[quad].z;
        const float right = half == 0 ? own[quad].y : own[quad].w;
        simt::stg(reinterpret_cast<unsigned*>(&problem.d_q[place + column]),
                  simt::pack_pair<T>(left * shape.scale, right * shape.scale));
      }
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::attention_backward_bf16
