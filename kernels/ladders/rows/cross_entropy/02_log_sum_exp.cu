// Rung 2: no probabilities: one number per token, log(sum of exp), says all of them.
//
// Idea:   exp(logit - log_sum) is the probability, and log_sum - logit[target] the loss, also where
//         the probability is too small for a float. A warp per row finds log_sum; a second kernel
//         turns the logits into gradients.
// Gain:   24 bytes per element become 16 (three reads, one write); sectors per request 32 -> 4; the
//         second array is gone.
// Limit:  the maximum and the sum read the row separately, one warp for a row of a whole
//         vocabulary.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::cross_entropy {
namespace {

using namespace simt;

constexpr int kRowsPerBlock = 4;  // a warp each
constexpr int kThreads = 256;     // of the gradients' kernel

__global__ void log_sum_exp_kernel(const float* __restrict__ logits,
                                   const int* __restrict__ targets, float* __restrict__ log_sums,
                                   float* __restrict__ losses, int tokens, int vocab) {
  const int token = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (branch(token >= tokens)) {
    return;  // a whole warp: the shuffles below have all lanes
  }
  const std::size_t first = static_cast<std::size_t>(token) * vocab;
  float highest = -INFINITY;
  for (int column = lane; column < vocab; column += 32) {
    const float logit = ldg(&logits[first + column]);
    highest = fmaxf(highest, logit);
  }
  highest = warp_max(highest);
  float sum = 0.0F;
  for (int column = lane; column < vocab; column += 32) {
    const float logit = ldg(&logits[first + column]);
    sum += expf(logit - highest);
  }
  const float log_sum = highest + logf(warp_sum(sum));
  if (branch(lane == 0)) {
    const int target = ldg(&targets[token]);
    const float of_target = ldg(&logits[first + target]);
    stg(&log_sums[token], log_sum);
    stg(&losses[token], log_sum - of_target);
  }
}

__global__ void gradient_kernel(const float* __restrict__ log_sums, const int* __restrict__ targets,
                                float* __restrict__ logits, int vocab, float scale) {
  // The row is divided out once per block: a division per thread would cost more than the rest.
  const unsigned blocks_of_row = (vocab + kThreads - 1) / kThreads;
  const unsigned token = blockIdx.x / blocks_of_row;
  const int column = blockIdx.x % blocks_of_row * kThreads + threadIdx.x;
  if (branch(column >= vocab)) {
    return;
  }
  const std::size_t index = static_cast<std::size_t>(token) * vocab + column;
  const float log_sum = ldg(&log_sums[token]);
  const int target = ldg(&targets[token]);
  const float one_hot = column == target ? 1.0F : 0.0F;
  const float logit = ldg(&logits[index]);
  stg(&logits[index], (expf(logit - log_sum) - one_hot) * scale);
}

}  // namespace

template <>
void log_sum_exp<kExecutor>(const Problem& problem, const Queue& queue) {
  launch(log_sum_exp_kernel,
         {.name = "log_sum_exp",
          .grid = {.x = ceil_div(problem.tokens, kRowsPerBlock)},
          .block = {.x = 32 * kRowsPerBlock},
          .queue = queue},
         problem.logits, problem.targets, problem.log_sums, problem.losses, problem.tokens,
         problem.vocab);
  launch(gradient_kernel,
         {.name = "gradient",
          .grid = {.x = problem.tokens * ceil_div(problem.vocab, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.log_sums, problem.targets, problem.logits, problem.vocab, problem.scale);
}

}  // namespace ultra::kernels::cross_entropy
