// Rung 3: a token is read once.
//
// Idea:   a warp holds a part of a token in registers, 16 bytes a lane, and stores it to all of its
//         places.
// Gain:   1 + top_k rows moved per token instead of 2 top_k; an eighth of the requests.
// Limit:  memory. Nothing is moved at all where the grouped product reads rows through their
//         places.

#include "kernels/ladders/tokens/token_permutation/stable_places.cuh"
#include "kernels/simt/pack.cuh"

namespace ultra::kernels::token_permutation {
namespace {

constexpr int kThreads = 128;

// A block has a token; its rows begin at multiples of `width` elements.
template <int width>
__global__ void __launch_bounds__(kThreads) read_once_kernel(const Problem problem) {
  using Elements = Pack<bf16, width>;
  const std::size_t token = blockIdx.x;
  const int* const places = &problem.place[token * problem.top_k];
  for (int column = threadIdx.x * width; column < problem.hidden; column += kThreads * width) {
    const Elements elements =
        ldg(reinterpret_cast<const Elements*>(&problem.x[token * problem.hidden + column]));
    for (int k = 0; k < problem.top_k; ++k) {
      const std::size_t place = ldg(&places[k]);
      stg(reinterpret_cast<Elements*>(&problem.permuted[place * problem.hidden + column]),
          elements);
    }
  }
}

template <int width>
void copy(const Problem& problem, const Queue& queue) {
  launch(read_once_kernel<width>,
         {.name = "read_once",
          .grid = {.x = static_cast<unsigned>(problem.tokens)},
          .block = {.x = kThreads},
          .queue = queue},
         problem);
}

}  // namespace

template <>
void read_once<kExecutor>(const Problem& problem, const Queue& queue) {
  place_stably(problem, queue);
  if (problem.hidden % 8 == 0) {
    copy<8>(problem, queue);
  } else {
    copy<1>(problem, queue);
  }
}

}  // namespace ultra::kernels::token_permutation
