#include "chapters/04_zero/shards/whole_weights.hpp"

namespace ultra::zero {

WholeWeights::WholeWeights(const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups) {
    flats_.push_back(group.flat(group.layout.padded, MemoryCategory::kParameters));
    group.initialize(flats_.back(), 0);
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      group.parameters[i]->set_value(group.view(flats_.back(), i));
    }
  }
}

}  // namespace ultra::zero
