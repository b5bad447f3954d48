#include "chapters/07_pipeline_parallel/lists/zero_bubble_list.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {

ListBuilder zero_bubble_list(ZeroBubble variant, std::size_t stage, std::size_t stages,
                             std::size_t micro_batches) {
  const bool is_h1 = variant == ZeroBubble::kH1;
  const std::size_t behind = stages - stage - 1;
  const std::size_t before_first_b = is_h1 ? behind + 1 : 2 * behind + 1;
  const std::size_t most_kept = is_h1 ? stages : 2 * stages - 1;
  ListBuilder list(1, micro_batches);
  while (list.forwards() < std::min(before_first_b, micro_batches)) list.forward();
  while (list.backwards() < micro_batches) {
    list.backward_input();
    const std::size_t kept = list.forwards() - list.backwards() + list.waiting();
    const bool is_last_forward_over = list.forwards() == micro_batches;
    if (kept == most_kept || is_last_forward_over) list.backward_weight();
    if (!is_last_forward_over) list.forward();
  }
  while (list.waiting() > 0) list.backward_weight();
  return list;
}

}  // namespace ultra::pipeline_parallel
