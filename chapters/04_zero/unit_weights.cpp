#include "chapters/04_zero/unit_weights.hpp"

#include <utility>

namespace ultra::zero {

UnitWeights::UnitWeights(ParameterGroup group, const Communicator& shards)
    : group_(std::move(group)),
      shards_(shards.labeled("gather " + group_.name)),
      shard_(group_.flat(group_.layout.shard, MemoryCategory::kParameters)) {
  group_.initialize(shard_, shard_range(group_.layout, shards.rank()).begin);
}

}  // namespace ultra::zero
