// Rung 2: places by counting, without atomic additions.
//
// Idea:   a slot's place is how many slots of smaller experts there are, and how many of its own
//         before it. Within a warp ballots count them, within a block shared memory, and between
//         blocks a launch that sums the blocks' counts (stable_places.cuh).
// Gain:   the same places in every run, in the order of the tokens; no word that all wait for.
// Limit:  the copy: each token is read top_k times, 2 bytes a lane.

#include "kernels/ladders/tokens/token_permutation/copy_slots.cuh"
#include "kernels/ladders/tokens/token_permutation/stable_places.cuh"

namespace ultra::kernels::token_permutation {

template <>
void stable<kExecutor>(const Problem& problem, const Queue& queue) {
  place_stably(problem, queue);
  copy_slots(problem, queue);
}

}  // namespace ultra::kernels::token_permutation
