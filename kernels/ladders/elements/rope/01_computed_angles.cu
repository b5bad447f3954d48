// Rung 1: one thread per pair, which computes its own sine and cosine.
//
// Idea:   the definition, for the queries, then for the keys. The angle is worked out in fp64: in
//         fp32, an angle of 4096 is off by up to 4096 times the rounding error of the rotation
//         itself.
// Cost:   16 bytes moved per pair, and beside them a power, a division and a product in fp64 and a
//         sine and a cosine: the same ones again in every head.
// Limit:  arithmetic, in a kernel that should be limited by memory; most of all on a GPU with few
//         units for fp64.

#include "kernels/ladders/elements/rope/rope.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::rope {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void computed_angles_kernel(const int* __restrict__ positions, float* __restrict__ x,
                                       int tokens, int heads, int pairs, double log2_theta,
                                       float direction) {
  const int index = blockIdx.x * kThreads + threadIdx.x;  // of (token, head, pair)
  if (branch(index >= tokens * heads * pairs)) {
    return;
  }
  const int pair = index % pairs;
  const int head = index / pairs;  // of all tokens' heads
  const double position = ldg(&positions[head / heads]);

  // In half turns, from -1 to 1: sincospif() then needs no more reduction.
  constexpr double kPi = 3.14159265358979323846;
  const double half_turns = position * exp2(-log2_theta * pair / pairs) / kPi;
  const double rest = half_turns - 2.0 * rint(half_turns / 2.0);
  float sine = 0.0F;
  float cosine = 0.0F;
  sincospif(static_cast<float>(rest), &sine, &cosine);
  sine *= direction;

  float* const first = x + static_cast<std::size_t>(head) * (2 * pairs) + pair;
  float* const second = first + pairs;
  const float a = ldg(first);
  const float b = ldg(second);
  stg(first, a * cosine - b * sine);
  stg(second, b * cosine + a * sine);
}

void turn(const Problem& problem, float* x, int heads, const Queue& queue) {
  launch(computed_angles_kernel,
         {.name = "computed_angles",
          .grid = {.x = ceil_div(static_cast<std::size_t>(problem.tokens) * heads * problem.pairs,
                                 kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.positions, x, problem.tokens, heads, problem.pairs, log2(problem.theta),
         problem.rotation == Rotation::kForward ? 1.0F : -1.0F);
}

}  // namespace

template <>
void computed_angles<kExecutor>(const Problem& problem, const Queue& queue) {
  turn(problem, problem.queries, problem.query_heads, queue);
  turn(problem, problem.keys, problem.key_heads, queue);
}

}  // namespace ultra::kernels::rope
