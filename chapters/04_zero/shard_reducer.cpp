#include "chapters/04_zero/shard_reducer.hpp"

#include <utility>

namespace ultra::zero {

ShardReducer::ShardReducer(std::vector<ReducedGroup> groups, Communicator shards, Device device,
                           DType dtype, Overlap overlap)
    : groups_(std::move(groups)),
      comm_(std::move(shards)),
      device_(std::move(device)),
      dtype_(dtype),
      overlap_(overlap),
      shards_(groups_.size()) {}

void ShardReducer::drop() {
  for (Tensor& shard : shards_) shard = Tensor();
}

}  // namespace ultra::zero
