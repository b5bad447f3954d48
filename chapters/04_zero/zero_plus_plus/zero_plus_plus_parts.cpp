#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"

#include <utility>

#include "chapters/04_zero/rows/row_parts.hpp"
#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/unit_weights.hpp"
#include "chapters/04_zero/zero_plus_plus/quantized_reducer.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_unit.hpp"

namespace ultra::zero {

ZeroPlusPlusParts::ZeroPlusPlusParts(ShardGroups ranks, const ZeroPlusPlus& how)
    : ranks_(std::move(ranks)), how_(how) {
  if (how.node_size) nodes_ = make_node_groups(ranks_.shards, *how.node_size);
}

Units ZeroPlusPlusParts::units(const std::vector<ParameterGroup>& groups,
                               std::optional<DType> rows_travel) const {
  Units units;
  for (const ParameterGroup& group : groups) {
    if (how_.changes_weights()) {
      units.push_back(std::make_unique<ZeroPlusPlusUnit>(group, ranks_.shards, how_, nodes_));
    } else if (group.cut == ShardCut::kRows) {
      units.push_back(row_unit(group, ranks_.shards, rows_travel));
    } else {
      units.push_back(std::make_unique<UnitWeights>(group, ranks_.shards));
    }
  }
  return units;
}

std::unique_ptr<GroupReducer> ZeroPlusPlusParts::reducer(
    const std::vector<ParameterGroup>& groups, Overlap overlap,
    const train::StepSchedule& schedule) const {
  if (!how_.gradients || groups.empty()) return shard_reducer(groups, ranks_, overlap, schedule);
  const nn::Parameter& first = *groups.front().parameters.front();
  return summed_over_copies(
      std::make_unique<QuantizedReducer>(reduced(groups), ranks_.shards, nodes_, *how_.gradients,
                                         first.device(), first.grad_dtype(), overlap),
      groups, ranks_.replicas, overlap, schedule);
}

}  // namespace ultra::zero
