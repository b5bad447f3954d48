#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"

namespace ultra::pipeline_parallel {

// [region afab_list]
train::StepSchedule afab_list(std::size_t micro_batches) {
  using enum train::ActionKind;
  train::StepSchedule list;
  list.reserve(2 * micro_batches);
  for (std::size_t i = 0; i < micro_batches; ++i) list.push_back({kForward, i});
  for (std::size_t i = 0; i < micro_batches; ++i) list.push_back({kBackward, i});
  return list;
}
// [/region]

// [region breadth_first_list]
train::StepSchedule breadth_first_list(std::size_t chunks, std::size_t micro_batches) {
  using enum train::ActionKind;
  train::StepSchedule list;
  list.reserve(2 * chunks * micro_batches);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t i = 0; i < micro_batches; ++i) list.push_back({kForward, i, chunk});
  }
  for (std::size_t chunk = chunks; chunk-- > 0;) {
    for (std::size_t i = 0; i < micro_batches; ++i) list.push_back({kBackward, i, chunk});
  }
  return list;
}
// [/region]

}  // namespace ultra::pipeline_parallel
