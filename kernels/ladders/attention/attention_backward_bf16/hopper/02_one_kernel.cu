// Rung 2: the backward pass in one kernel, with wgmma. Checked on the emulator; right on an H200 while
//         the last block of a head still rounded d_q, which took longer than all else.
//
// Idea:   a block keeps d_k and d_v of 128 keys in its registers and goes through the queries, as
//         rung 1's first kernel does. The gradients of scores also go to shared memory, where both
//         warpgroups multiply them by the keys: this block's part of d_q. No product is made twice.
//         Parts of d_q are summed over blocks in global memory, in fp32, by two warps that do
//         nothing else. Floats that are added in another order give another sum: blocks take
//         turns, and the result is the same every time, bit for bit.
//         All work in registers has products beside it: the powers those of d_o v^T, the
//         gradients of scores those of d_v, and the store of d_q the scores of the next queries.
// Order:  the last keys first. Of a causal problem, block j begins with query 128 j, to which block
//         j + 1 never adds and which nobody adds to before j: the blocks of a head follow each other
//         through the queries without waiting. Of a full problem, each block waits at its
//         first queries for those that began before it.
// Gain:   five products instead of seven, on wgmma; q and d_o arrive once instead of twice.
// Cost:   4 bytes of d_q's sum per element and block that is added, in the second-level cache, instead
//         of two more products. The first block stores its part, so that nobody clears the sum; a
//         kernel of its own rounds it.
// Limit:  each step has a synchronisation of the two warpgroups, which share gradients of scores, and
//         one of each, whose warps share weights: with both in registers, as wgmma would take them
//         from the left, a thread does not have enough of them. d_q leaves in pieces of 16 bytes.
// Source: Shah et al. 2024, FlashAttention-3, arXiv 2407.08608, section 3.1; the repository's
//         deterministic mode (flash_attn, hopper/) for the order of d_q.

#include "kernels/ladders/attention/attention_backward_bf16/hopper/ordered_sum.cuh"

namespace ultra::kernels::attention_backward_bf16 {
namespace {

// At launch 168 for each of 384 threads: 56 + 2 x 224 = 3 x 168.
constexpr int kHelperRegisters = 56;
constexpr int kMultiplierRegisters = 224;
constexpr int kBlockThreads = (kMultipliers + 1) * kWarpgroup;
// Names of barriers: 2 is the writers'.
constexpr int kMultipliersName = 1;
constexpr int kFirstOwnName = 3;

static_assert(bytes_of<Shared<128>>() <= std::size_t{227} * 1024, "a block of an H100 has 227 KiB");

struct Maps {
  const TensorMap& q;
  const TensorMap& k;
  const TensorMap& v;
  const TensorMap& d_o;
};

// Fetches the block's keys and values, and all queries and their gradients. One thread calls it.
template <int kHeadDim>
__device__ __forceinline__ void fetch(const Maps& maps, Shared<kHeadDim>& shared,
                                      const KeyBlock& keys) {
  const Shape& shape = keys.shape;
  const HeadAt kv_head = attention_bf16::head_at(keys.kv_head, shape.kv_heads);
  fetch_tile(shared.k, maps.k, kv_head, keys.first_key, shared.keys_are_full);
  fetch_tile(shared.v, maps.v, kv_head, keys.first_key, shared.keys_are_full);
  RingPosition<kStages> position;
  for (int step = 0; step < keys.steps(); ++step) {
    const auto [number, tile, first_query] = keys.at(step);
    const HeadAt head = attention_bf16::head_at(number, shape.kv_heads * shape.group);
    const int stage = position.stage;
    wait_for(shared.are_empty[stage], position.parity ^ 1U);
    fetch_tile(shared.q[stage], maps.q, head, first_query, shared.are_full[stage]);
    fetch_tile(shared.d_o[stage], maps.d_o, head, first_query, shared.are_full[stage]);
    position.advance();
  }
}

// Loads lse and delta of all queries; a warp calls it. Behind the sequence, lse is infinite: weights
// are zeros there.
template <int kHeadDim, typename T>
__device__ __forceinline__ void load_statistics(const OrderedProblemOf<T>& problem,
                                                Shared<kHeadDim>& shared, const KeyBlock& keys) {
  constexpr int kOwn = kQueries / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RingPosition<kStages> position;
  for (int step = 0; step < keys.steps(); ++step) {
    const QueryTile at = keys.at(step);
    const std::size_t first = std::size_t(at.head) * problem.shape.seq_len + at.first_query;
    float lse[kOwn];
    float delta[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = i * 32 + lane;
      const bool exists = at.first_query + row < problem.shape.seq_len;
      lse[i] = exists ? simt::ldg(&problem.lse[first + row]) * kLog2E : INFINITY;
      delta[i] = exists ? simt::ldg(&problem.delta[first + row]) : 0.0F;
    }
    const int stage = position.stage;
    wait_for(shared.are_empty[stage], position.parity ^ 1U);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      simt::sts(&shared.lse[stage][i * 32 + lane], lse[i]);
      simt::sts(&shared.delta[stage][i * 32 + lane], delta[i]);
    }
    __syncwarp();
    release(shared.are_full[stage]);
    position.advance();
  }
}

// Sets the scores of keys that a query does not see to -inf.
template <int kTiles>
__device__ __forceinline__ void mask_keys(float (&scores)[1][kTiles][4], const Shape& shape,
                                          int first_key, int first_query) {
  const int own_key =
      first_key + attention_bf16::first_warp_row<1>() + attention_bf16::lane_group();
  const int own_query = first_query + 2 * attention_bf16::lane_in_group();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int keys = keys_of_query(shape, own_query + n * 8 + e % 2);
      scores[0][n][e] = own_key + e / 2 * 8 < keys ? scores[0][n][e] : -INFINITY;
    }
  }
}

// Turns scores into weights 2^(factor score - lse); `lse` is of the tile's queries.
template <int kTiles>
__device__ __forceinline__ void weigh(float (&scores)[1][kTiles][4], float factor,
                                      const float* lse) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float2 own = simt::lds(
        reinterpret_cast<const float2*>(&lse[n * 8 + 2 * attention_bf16::lane_in_group()]));
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      scores[0][n][e] = simt::exp2_flushed(scores[0][n][e] * factor - (e % 2 == 0 ? own.x : own.y));
    }
  }
}

// Turns gradients of weights into those of scores, without the scale.
template <int kTiles>
__device__ __forceinline__ void differentiate_weights(float (&gradients)[1][kTiles][4],
                                                      const float (&weights)[1][kTiles][4],
                                                      const float* delta) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float2 own = simt::lds(
        reinterpret_cast<const float2*>(&delta[n * 8 + 2 * attention_bf16::lane_in_group()]));
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      gradients[0][n][e] =
          gradient_of(weights[0][n][e], gradients[0][n][e], e % 2 == 0 ? own.x : own.y);
    }
  }
}

// Whether one is negative.
__device__ __forceinline__ bool has_negative(const TileWeights& values) {
  unsigned all = 0;
#pragma unroll
  for (const auto& step : values[0]) {
    all |= step[0] | step[1] | step[2] | step[3];
  }
  return (all & 0x80008000U) != 0;
}

// A multiplying warpgroup: d_k and d_v of its 64 keys, and its quarter of each step's d_q.
template <int kHeadDim, typename T>
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const OrderedProblemOf<T>& problem,
                                        Shared<kHeadDim>& shared, const KeyBlock& keys,
                                        int warpgroup)
      : problem_(problem), shared_(shared), keys_(keys), warpgroup_(warpgroup) {}

  __device__ __forceinline__ void run() {
    hold_in_place(flat(d_k_));
    hold_in_place(flat(d_v_));
    wait_for(shared_.keys_are_full, 0);
    wait_for(shared_.are_full[0], 0);
    begin_scores<T>(scores_, shared_.k, warpgroup_ * kOwnKeys, shared_.q[0]);
    const int last = keys_.steps() - 1;
    for (int step = 0; step < last; ++step) {
      take_step<false>(step);
    }
    take_step<true>(last);
    hold_in_place(flat(d_k_));
    hold_in_place(flat(d_v_));
    const Shape& shape = problem_.shape;
    const std::size_t first = attention_bf16::Rows{shape.seq_len, 0}.element(
        shape, shape.kv_heads, keys_.kv_head, keys_.first_key);
    const int stride = attention_bf16::token_step(shape, shape.kv_heads) * shape.head_dim;
    const int rows = shape.seq_len - keys_.first_key;
    store_rows<kHeadDim>(&problem_.d_k[first], d_k_, shape.scale, rows, shape.head_dim, stride);
    store_rows<kHeadDim>(&problem_.d_v[first], d_v_, 1.0F, rows, shape.head_dim, stride);
  }

 private:
  // The scores of this step are under way; at its end, those of the next one are.
  template <bool is_last>
  __device__ __forceinline__ void take_step(int step) {
    const int stage_at = at_.stage;
    begin_scores<T>(gradients_, shared_.v, warpgroup_ * kOwnKeys, shared_.d_o[stage_at]);
    wait_for_products<1>();  // the scores
    hold_in_place(flat(scores_));
    weigh_step(step, stage_at);
    auto& weights = shared_.weights[step % 2][warpgroup_];
    finish_before_wait(stage(weights, scores_));        // else the powers come behind the wait
    synchronise_warpgroup(kFirstOwnName + warpgroup_);  // without it, others' weights are missing
    wait_for_products<0>();
    hold_in_place(flat(gradients_));
    begin_sums<T>(d_v_, weights, shared_.d_o[stage_at]);
    differentiate_weights(gradients_, scores_, shared_.delta[stage_at]);
    auto& d_s = shared_.d_s[step % 2];
    stage(d_s[warpgroup_], gradients_);
    // Without it, products read what others have not stored yet.
    wait_at_named<kMultipliers * kWarpgroup>(kMultipliersName);
    begin_sums<T>(d_k_, d_s[warpgroup_], shared_.q[stage_at]);
    begin_d_q<T>(d_q_, d_s, shared_.k, warpgroup_);
    at_.advance();
    if constexpr (is_last) {
      wait_for_products<0>();
    } else {
      wait_for(shared_.are_full[at_.stage], at_.parity);
      begin_scores<T>(scores_, shared_.k, warpgroup_ * kOwnKeys, shared_.q[at_.stage]);
      wait_for_products<1>();  // d_v, d_k and d_q
    }
    hold_in_place(flat(d_q_));
    release(shared_.are_empty[stage_at]);
    hand_over_d_q(step);
  }

  __device__ __forceinline__ void weigh_step(int step, int stage) {
    const int first_query = keys_.at(step).first_query;
    if (keys_.first_key + kKeys > keys_of_query(problem_.shape, first_query)) {
      mask_keys(scores_, problem_.shape, keys_.first_key, first_query);
    }
    weigh(scores_, problem_.shape.scale * kLog2E, shared_.lse[stage]);
  }

  // Rounds scores or gradients of scores into shared memory. True if one is below zero: never of
  // weights, but only who has all of them can tell.
  __device__ __forceinline__ static bool stage(StagedWeights& staged, const TileScores& values) {
    TileWeights packed;
    attention_bf16::pack_weights<T>(packed, values);
    stage_packed<1>(reinterpret_cast<StagedBoxes<1>&>(staged), packed[0]);
    show_to_tma();
    return has_negative(packed);
  }

  // To the writers.
  __device__ __forceinline__ void hand_over_d_q(int step) {
    wait_for(shared_.d_q_is_empty, step % 2 == 0 ? 1U : 0U);
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const float* const own = d_q_[0][quad];
      simt::sts(&shared_.d_q[warpgroup_][quad][threadIdx.x % kWarpgroup],
                make_float4(own[0], own[1], own[2], own[3]));
    }
    __syncwarp();
    release(shared_.d_q_is_full);
  }

  const OrderedProblemOf<T>& problem_;
  Shared<kHeadDim>& shared_;
  const KeyBlock& keys_;
  int warpgroup_;
  RingPosition<kStages> at_;
  Sums<kHeadDim> d_k_ = {};
  Sums<kHeadDim> d_v_ = {};
  TileScores scores_;     // then weights
  TileScores gradients_;  // of weights, then of scores
  float d_q_[1][kQuads][4];
};

template <int kHeadDim, typename T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    one_kernel_kernel(const __grid_constant__ TensorMap q_map,
                      const __grid_constant__ TensorMap k_map,
                      const __grid_constant__ TensorMap v_map,
                      const __grid_constant__ TensorMap d_o_map,
                      const OrderedProblemOf<T> problem) {
  auto& shared = aligned_shared<Shared<kHeadDim>>();
  if (threadIdx.x == 0) {
    shared.init();
    publish_barriers();
    simt::sts(&shared.number, atomicAdd(problem.turns, 1U));
  }
  __syncthreads();  // without it, others do not know their keys, and meet no barriers
  const KeyBlock keys(problem.shape, simt::lds(&shared.number));
  const int warpgroup = warpgroup_index();
  if (warpgroup < kMultipliers) {
    take_registers<kMultiplierRegisters>();
    Multiplier<kHeadDim, T>(problem, shared, keys, warpgroup).run();
    return;
  }
  give_registers<kHelperRegisters>();
  const int helper = static_cast<int>(threadIdx.x) % kWarpgroup;
  if (helper == 0) {
    fetch<kHeadDim>({q_map, k_map, v_map, d_o_map}, shared, keys);
  } else if (helper / 32 == 1) {
    load_statistics(problem, shared, keys);
  } else if (helper / 32 >= 2) {
    write_d_q(problem, shared, keys, helper - 64);
  }
}

// The number of the next block, and each tile's turn.
__global__ void clear_kernel(unsigned* __restrict__ turns, std::size_t count) {
  const std::size_t i = std::size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    simt::stg(&turns[i], 0U);
  }
}

template <int kHeadDim, typename T>
void launch_one(const OrderedProblemOf<T>& problem, const simt::Queue& queue) {
  const Shape& shape = problem.shape;
  const int heads = shape.kv_heads * shape.group;
  const auto describe_heads = [&](const T* rows, int of_sequence, int box_rows) {
    return attention_bf16::describe_heads(shape, rows, of_sequence, box_rows);
  };
  const unsigned blocks = simt::ceil_div(static_cast<std::size_t>(shape.seq_len), kKeys);
  simt::launch(one_kernel_kernel<kHeadDim, T>,
               {.name = "one_kernel",
                .grid = {.x = blocks * static_cast<unsigned>(shape.batch * shape.kv_heads)},
                .block = {.x = kBlockThreads},
                .shared_bytes = bytes_of<Shared<kHeadDim>>(),
                .queue = queue},
               describe_heads(problem.q, heads, kQueries),
               describe_heads(problem.k, shape.kv_heads, kKeys),
               describe_heads(problem.v, shape.kv_heads, kKeys),
               describe_heads(problem.d_o, heads, kQueries), problem);
  simt::launch(round_kernel<kHeadDim, T>,
               {.name = "round",
                .grid = {.x = static_cast<unsigned>(one_kernel_tiles(shape))},
                .block = {.x = kBoxes<kHeadDim> * kWarpgroup},
                .queue = queue},
               problem);
}

template <typename T>
void launch_all(const OrderedProblemOf<T>& problem, const simt::Queue& queue) {
  expect_hopper("rung 1 runs on any GPU since the A100");
  launch_delta(problem, queue);
  const std::size_t turns = turns_of(problem.shape);
  simt::launch(clear_kernel,
               {.name = "clear",
                .grid = {.x = simt::ceil_div(turns, kThreads)},
                .block = {.x = kThreads},
                .queue = queue},
               problem.turns, turns);
  if (problem.shape.head_dim <= 64) {
    launch_one<64>(problem, queue);
  } else {
    launch_one<128>(problem, queue);
  }
}

}  // namespace

template <>
void one_kernel<simt::kExecutor>(const OrderedProblem& problem, const simt::Queue& queue) {
  launch_all(problem, queue);
}

template <>
void one_kernel_f16<simt::kExecutor>(const OrderedProblemOf<simt::half>& problem,
                                     const simt::Queue& queue) {
  launch_all(problem, queue);
}

}  // namespace ultra::kernels::attention_backward_bf16
