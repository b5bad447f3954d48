// Rung 2: sines and cosines from a table.
//
// Idea:   the angles depend on the position and the pair alone, not on the head nor on the layer:
//         they are computed once for the whole training, in fp64, and rounded.
// Gain:   no arithmetic worth counting. 8 bytes of the table are read per pair, mostly from a
//         cache: all heads of a token read the same.
// Limit:  requests of 128 bytes, seven for every 32 pairs.

#include "kernels/ladders/elements/rope/rope.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rope {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void table_kernel(const int* __restrict__ positions, const float* __restrict__ cosines,
                             const float* __restrict__ sines, float* __restrict__ x, int tokens,
                             int heads, int pairs, float direction) {
  const int index = blockIdx.x * kThreads + threadIdx.x;  // of (token, head, pair)
  if (branch(index >= tokens * heads * pairs)) {
    return;
  }
  const int pair = index % pairs;
  const int head = index / pairs;  // of all tokens' heads
  const std::size_t angle = static_cast<std::size_t>(ldg(&positions[head / heads])) * pairs + pair;
  const float cosine = ldg(&cosines[angle]);
  const float sine = direction * ldg(&sines[angle]);

  float* const first = x + static_cast<std::size_t>(head) * (2 * pairs) + pair;
  float* const second = first + pairs;
  const float a = ldg(first);
  const float b = ldg(second);
  stg(first, a * cosine - b * sine);
  stg(second, b * cosine + a * sine);
}

void turn(const Problem& problem, float* x, int heads, const Queue& queue) {
  launch(table_kernel,
         {.name = "table",
          .grid = {.x = ceil_div(static_cast<std::size_t>(problem.tokens) * heads * problem.pairs,
                                 kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.positions, problem.cosines, problem.sines, x, problem.tokens, heads, problem.pairs,
         problem.rotation == Rotation::kForward ? 1.0F : -1.0F);
}

}  // namespace

template <>
void table<kExecutor>(const Problem& problem, const Queue& queue) {
  turn(problem, problem.queries, problem.query_heads, queue);
  turn(problem, problem.keys, problem.key_heads, queue);
}

}  // namespace ultra::kernels::rope
