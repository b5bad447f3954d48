#include "chapters/04_zero/zero_step.hpp"

#include <memory>

namespace ultra::zero {

data_parallel::MakeBucketExchange reduce_scatter_exchange(const ShardGroups& groups) {
  return [groups](const data_parallel::BucketContents& contents, const Device&, DType) {
    ShardGroups labeled = groups;
    labeled.shards = groups.shards.labeled("reduce " + contents.label());
    return std::make_unique<ReduceScatterExchange>(std::move(labeled));
  };
}

}  // namespace ultra::zero
