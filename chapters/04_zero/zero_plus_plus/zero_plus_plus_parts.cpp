#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"

#include <utility>

#include "chapters/04_zero/unit_weights.hpp"
#include "chapters/04_zero/zero_plus_plus/quantized_reducer.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_unit.hpp"

namespace ultra::zero {

ZeroPlusPlusParts::ZeroPlusPlusParts(const Communicator& shards, const ZeroPlusPlus& how)
    : shards_(shards), how_(how) {
  if (how.node_size) nodes_ = make_node_groups(shards, *how.node_size);
}

std::unique_ptr<ShardedUnit> ZeroPlusPlusParts::unit(const ParameterGroup& group) const {
  if (!how_.changes_weights()) return std::make_unique<UnitWeights>(group, shards_);
  return std::make_unique<ZeroPlusPlusUnit>(group, shards_, how_, nodes_);
}

std::unique_ptr<GroupReducer> ZeroPlusPlusParts::reducer(std::vector<ReducedGroup> groups,
                                                         const Device& device, DType dtype,
                                                         Overlap overlap) const {
  if (!how_.gradients) {
    return std::make_unique<ShardReducer>(std::move(groups), shards_, device, dtype, overlap);
  }
  return std::make_unique<QuantizedReducer>(std::move(groups), shards_, nodes_, *how_.gradients,
                                            device, dtype, overlap);
}

}  // namespace ultra::zero
