// Rung 4: one launch for queries and keys; a thread keeps its angles for several heads.
//
// Idea:   a thread turns the same four pairs of every 4th head of its token, queries first, then
//         keys: the sines and cosines stay in its registers.
// Gain:   the table is requested 4 times per token instead of once per head (40 for 32 + 8 heads);
//         one launch, so the keys' few heads do not run alone on a GPU that they cannot fill.
// Limit:  memory: each element is read once and written once. Less only by doing it where queries
//         and keys are made or used, in the epilogue of their product or the prologue of attention.

#include "kernels/ladders/elements/rope/rope.hpp"
#include "kernels/ladders/elements/rope/rotate.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rope {
namespace {

using namespace simt;

constexpr int kThreads = 128;
constexpr int kStrips = 4;  // threads that share a token's heads

template <int width>
__global__ void fused_kernel(const int* __restrict__ positions, const float* __restrict__ cosines,
                             const float* __restrict__ sines, float* __restrict__ queries,
                             float* __restrict__ keys, int tokens, int query_heads, int key_heads,
                             int pairs, float direction) {
  using Floats = Pack<float, width>;
  const int packs = pairs / width;
  const int index = blockIdx.x * kThreads + threadIdx.x;  // of (token, strip of heads, pack)
  if (branch(index >= tokens * kStrips * packs)) {
    return;
  }
  const int pair = index % packs * width;
  const int strip = index / packs % kStrips;
  const int token = index / packs / kStrips;
  const std::size_t angle = static_cast<std::size_t>(ldg(&positions[token])) * pairs + pair;
  const Floats cosine = ldg(reinterpret_cast<const Floats*>(&cosines[angle]));
  const Floats sine = ldg(reinterpret_cast<const Floats*>(&sines[angle]));

  const int heads = query_heads + key_heads;
  const auto first_of = [&](int head) {
    const bool is_query = head < query_heads;
    const std::size_t head_of_all =
        is_query ? static_cast<std::size_t>(token) * query_heads + head
                 : static_cast<std::size_t>(token) * key_heads + (head - query_heads);
    float* const x = is_query ? queries : keys;
    return reinterpret_cast<Floats*>(x + head_of_all * (2 * pairs) + pair);
  };
  // The next head is loaded before this one is stored: the arrays are changed in place, and the
  // compiler does not move a load before a store that may be to the same place.
  Floats* here = first_of(strip);
  Floats a{};
  Floats b{};
  if (strip < heads) {
    a = ldg(here);
    b = ldg(here + packs);
  }
  for (int head = strip; head < heads; head += kStrips) {
    Floats* const there = first_of(head + kStrips);
    Floats next_a{};
    Floats next_b{};
    if (head + kStrips < heads) {
      next_a = ldg(there);
      next_b = ldg(there + packs);
    }
    rotate(a, b, cosine, sine, direction);
    stg(here, a);
    stg(here + packs, b);
    here = there;
    a = next_a;
    b = next_b;
  }
}

template <int width>
void turn(const Problem& problem, const Queue& queue) {
  const int packs = problem.pairs / width;
  launch(fused_kernel<width>,
         {.name = "fused",
          .grid = {.x = ceil_div(static_cast<std::size_t>(problem.tokens) * kStrips * packs,
                                 kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.positions, problem.cosines, problem.sines, problem.queries, problem.keys,
         problem.tokens, problem.query_heads, problem.key_heads, problem.pairs,
         problem.rotation == Rotation::kForward ? 1.0F : -1.0F);
}

}  // namespace

template <>
void fused<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.pairs)) {
    turn<4>(problem, queue);
  } else {
    turn<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::rope
