#include "chapters/04_zero/shard_reducer.hpp"

#include "common/ops/elementwise.hpp"

namespace ultra::zero {

// [region open]
Tensor ShardReducer::open(std::size_t group) {
  while (under_way_.size() > 1) drain_oldest();
  const FlatLayout& layout = groups_[group].layout;
  open_ = Tensor::empty(device_, {layout.padded}, dtype_, MemoryCategory::kCommunication);
  open_.slice(0, {layout.count, layout.padded}).fill(0.0);
  return open_;
}
// [/region]

// [region flush]
void ShardReducer::flush(std::size_t group) {
  const Tensor flat = std::exchange(open_, Tensor());
  const Tensor own = flat.slice(0, shard_range(groups_[group].layout, comm_.rank()));
  const Communicator labeled = comm_.labeled("reduce " + groups_[group].name);
  under_way_.push_back({group, own, labeled.reduce_scatter(flat, own)});
  if (overlap_ == Overlap::kOff) finish();
}
// [/region]

// [region drain_oldest]
void ShardReducer::drain_oldest() {
  UnderWay oldest = std::move(under_way_.front());
  under_way_.pop_front();
  oldest.work.wait();  // or the shard would get sums that are not complete
  Tensor& shard = shards_[oldest.group];
  if (shard.defined()) {
    ops::add_into(shard, oldest.own);
  } else {
    shard = oldest.own.clone(MemoryCategory::kGradients);
  }
}
// [/region]

// [region finish]
void ShardReducer::finish() {
  while (!under_way_.empty()) drain_oldest();
}
// [/region]

}  // namespace ultra::zero
