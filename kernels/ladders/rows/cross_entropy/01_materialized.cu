// Rung 1: the formulas one after the other: probabilities, losses, gradients.
//
// Idea:   softmax in a kernel of one thread per row, with the maximum subtracted first; then
//         loss = -log(probability of the target); then probability minus one-hot.
// Cost:   three passes over the logits, two over the probabilities, one over the gradients: 24
//         bytes moved per element, where 8 are asked for, and a second array as large as the
//         logits. Its lanes stand in 32 rows: 32 sectors per request.
//         A probability below the smallest float is 0, and the loss infinite.
// Limit:  memory, and far too few threads.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::cross_entropy {
namespace {

using namespace simt;

constexpr int kThreads = 256;

__global__ void softmax_kernel(const float* __restrict__ logits, float* __restrict__ probabilities,
                               int tokens, int vocab) {
  const int token = blockIdx.x * kThreads + threadIdx.x;
  if (branch(token >= tokens)) {
    return;
  }
  const std::size_t first = static_cast<std::size_t>(token) * vocab;
  float highest = -INFINITY;
  for (int column = 0; column < vocab; ++column) {
    const float logit = ldg(&logits[first + column]);
    highest = fmaxf(highest, logit);
  }
  float sum = 0.0F;
  for (int column = 0; column < vocab; ++column) {
    const float logit = ldg(&logits[first + column]);
    sum += expf(logit - highest);
  }
  for (int column = 0; column < vocab; ++column) {
    const float logit = ldg(&logits[first + column]);
    stg(&probabilities[first + column], expf(logit - highest) / sum);
  }
}

__global__ void loss_kernel(const float* __restrict__ probabilities,
                            const int* __restrict__ targets, float* __restrict__ losses, int tokens,
                            int vocab) {
  const int token = blockIdx.x * kThreads + threadIdx.x;
  if (branch(token >= tokens)) {
    return;
  }
  const int target = ldg(&targets[token]);
  const float probability = ldg(&probabilities[static_cast<std::size_t>(token) * vocab + target]);
  stg(&losses[token], -logf(probability));
}

__global__ void gradient_kernel(const float* __restrict__ probabilities,
                                const int* __restrict__ targets, float* __restrict__ logits,
                                int vocab, float scale) {
  // The row is divided out once per block: a division per thread would cost more than the rest.
  const unsigned blocks_of_row = (vocab + kThreads - 1) / kThreads;
  const unsigned token = blockIdx.x / blocks_of_row;
  const int column = blockIdx.x % blocks_of_row * kThreads + threadIdx.x;
  if (branch(column >= vocab)) {
    return;
  }
  const std::size_t index = static_cast<std::size_t>(token) * vocab + column;
  const int target = ldg(&targets[token]);
  const float one_hot = column == target ? 1.0F : 0.0F;
  const float probability = ldg(&probabilities[index]);
  stg(&logits[index], (probability - one_hot) * scale);
}

}  // namespace

template <>
void materialized<kExecutor>(const Problem& problem, const Queue& queue) {
  const Extents rows{.x = ceil_div(problem.tokens, kThreads)};
  const Extents elements{.x = problem.tokens * ceil_div(problem.vocab, kThreads)};
  launch(softmax_kernel,
         {.name = "softmax", .grid = rows, .block = {.x = kThreads}, .queue = queue},
         problem.logits, problem.probabilities, problem.tokens, problem.vocab);
  launch(loss_kernel, {.name = "loss", .grid = rows, .block = {.x = kThreads}, .queue = queue},
         problem.probabilities, problem.targets, problem.losses, problem.tokens, problem.vocab);
  launch(gradient_kernel,
         {.name = "gradient", .grid = elements, .block = {.x = kThreads}, .queue = queue},
         problem.probabilities, problem.targets, problem.logits, problem.vocab, problem.scale);
}

}  // namespace ultra::kernels::cross_entropy
