#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

CostModel CostModel::equal(std::size_t parts, const PartCost& part) {
  CostModel costs;
  costs.parts.assign(parts, part);
  return costs;
}

double CostModel::seconds(train::ActionKind kind, std::size_t part) const {
  using train::ActionKind;
  switch (kind) {
    case ActionKind::kForward:
      return parts[part].forward;
    case ActionKind::kBackward:
      return parts[part].backward();
    case ActionKind::kBackwardInput:
      return parts[part].backward_input;
    case ActionKind::kBackwardWeight:
      return parts[part].backward_weight;
    case ActionKind::kUpdate:
      return update;
  }
  throw InternalError("an action has no cost");
}

}  // namespace ultra::pipeline_parallel
