// Rung 1: the gradients of all logits in memory.
//
// Idea:   three products: the logits anew, which become their gradient where they are, in registers;
//         then the gradients of x and of the weight from it.
// Cost:   2 bytes for each logit. With 8192 tokens and a vocabulary of 128,256 that are 2.1 GB.
// Limit:  the memory that they take.

#include "kernels/ladders/rows/linear_cross_entropy_backward/gradients.cuh"

namespace ultra::kernels::linear_cross_entropy_backward {

template <>
void materialized<kExecutor>(const Problem& problem, const Queue& queue) {
  launch_chunk(problem, {0, problem.tokens}, queue);
}

}  // namespace ultra::kernels::linear_cross_entropy_backward
