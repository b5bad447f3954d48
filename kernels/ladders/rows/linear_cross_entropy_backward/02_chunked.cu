// Rung 2: the gradients of a chunk's logits.
//
// Idea:   tokens do not meet in the softmax: a chunk of them is done with before the next one
//         begins, in the same memory. The weight's gradient is added up over the chunks.
// Gain:   the scratch is about as large as x, whatever the vocabulary: 2.1 GB become 67 MB.
// Limit:  the weight's gradient is read and written once for each chunk, and the products of small
//         chunks have few tiles. The tensor cores have three products to do.

#include "kernels/ladders/rows/linear_cross_entropy_backward/gradients.cuh"

namespace ultra::kernels::linear_cross_entropy_backward {

// [region chunks]
template <>
void chunked<kExecutor>(const Problem& problem, const Queue& queue) {
  const int chunk = chunk_of(problem.tokens, problem.vocab, problem.hidden);
  for (int first = 0; first < problem.tokens; first += chunk) {
    const int end = first + chunk < problem.tokens ? first + chunk : problem.tokens;
    launch_chunk(problem, {first, end}, queue);
  }
}
// [/region]

}  // namespace ultra::kernels::linear_cross_entropy_backward
