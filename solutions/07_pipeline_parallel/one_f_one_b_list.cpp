#include "chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {

// [region one_f_one_b_list]
train::StepSchedule one_f_one_b_list(std::size_t stage, std::size_t stages,
                                     std::size_t micro_batches) {
  using enum train::ActionKind;
  // A micro-batch comes back after it has passed all stages behind: meanwhile as many others pass.
  const std::size_t warmup = std::min(stages - stage - 1, micro_batches);
  train::StepSchedule list;
  list.reserve(2 * micro_batches);
  for (std::size_t i = 0; i < warmup; ++i) list.push_back({kForward, i});
  for (std::size_t i = warmup; i < micro_batches; ++i) {
    list.push_back({kForward, i});
    list.push_back({kBackward, i - warmup});
  }
  for (std::size_t i = micro_batches - warmup; i < micro_batches; ++i) {
    list.push_back({kBackward, i});
  }
  return list;
}
// [/region]

}  // namespace ultra::pipeline_parallel
