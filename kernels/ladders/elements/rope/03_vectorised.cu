// Rung 3: accesses of 16 bytes: a thread turns four neighbouring pairs.
//
// Idea:   the rotate-half layout pairs elements that are far apart, so four neighbours of the first
//         half have four neighbours of the second half for partners: both are one access.
// Gain:   a quarter of the requests.
// Limit:  every head reads the table: as many bytes requested as of the queries themselves, if from
//         a cache. Where 4 does not divide the pairs, halves are misaligned: pair by pair as
//         before.

#include "kernels/ladders/elements/rope/rope.hpp"
#include "kernels/ladders/elements/rope/rotate.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rope {
namespace {

using namespace simt;

constexpr int kThreads = 256;

template <int width>
__global__ void vectorised_kernel(const int* __restrict__ positions,
                                  const float* __restrict__ cosines,
                                  const float* __restrict__ sines, float* __restrict__ x,
                                  int tokens, int heads, int pairs, float direction) {
  using Floats = Pack<float, width>;
  const int packs = pairs / width;
  const int index = blockIdx.x * kThreads + threadIdx.x;  // of (token, head, pack of pairs)
  if (branch(index >= tokens * heads * packs)) {
    return;
  }
  const int pair = index % packs * width;
  const int head = index / packs;  // of all tokens' heads
  const std::size_t angle = static_cast<std::size_t>(ldg(&positions[head / heads])) * pairs + pair;
  const Floats cosine = ldg(reinterpret_cast<const Floats*>(&cosines[angle]));
  const Floats sine = ldg(reinterpret_cast<const Floats*>(&sines[angle]));

  auto* const first =
      reinterpret_cast<Floats*>(x + static_cast<std::size_t>(head) * (2 * pairs) + pair);
  auto* const second = first + packs;
  Floats a = ldg(first);
  Floats b = ldg(second);
  rotate(a, b, cosine, sine, direction);
  stg(first, a);
  stg(second, b);
}

template <int width>
void turn(const Problem& problem, float* x, int heads, const Queue& queue) {
  const int packs = problem.pairs / width;
  launch(
      vectorised_kernel<width>,
      {.name = "vectorised",
       .grid = {.x = ceil_div(static_cast<std::size_t>(problem.tokens) * heads * packs, kThreads)},
       .block = {.x = kThreads},
       .queue = queue},
      problem.positions, problem.cosines, problem.sines, x, problem.tokens, heads, problem.pairs,
      problem.rotation == Rotation::kForward ? 1.0F : -1.0F);
}

template <int width>
void turn_both(const Problem& problem, const Queue& queue) {
  turn<width>(problem, problem.queries, problem.query_heads, queue);
  turn<width>(problem, problem.keys, problem.key_heads, queue);
}

}  // namespace

template <>
void vectorised<kExecutor>(const Problem& problem, const Queue& queue) {
  if (has_aligned_rows(problem.pairs)) {
    turn_both<4>(problem, queue);
  } else {
    turn_both<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::rope
