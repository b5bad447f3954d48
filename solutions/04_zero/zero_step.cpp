#include "chapters/04_zero/zero_step.hpp"

#include <vector>

#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/optim/clip.hpp"

namespace ultra::zero {

// [region exchange]
void ReduceScatterExchange::start(const Tensor& bucket) {
  shard_ = own_shard(bucket, groups_.shards);
  work_ = groups_.shards.reduce_scatter(bucket, shard_);
}

void ReduceScatterExchange::finish() {
  work_.wait();  // or the optimizer would read sums that are not complete
  if (groups_.replicas) groups_.replicas->all_reduce(shard_).wait();
  shard_ = Tensor();  // the handle keeps the bucket's memory alive
}
// [/region]

// [region step_own_shard]
void step_own_shard(std::span<const optim::TensorUpdate> own, std::span<const Tensor> whole,
                    const train::StepRule& rule, optim::Optimizer& optimizer,
                    const Communicator& shards) {
  optimizer.step(own, rule.learning_rate, optim::clip_coefficient(rule.norm, rule.clip_norm));
  std::vector<Work> gathers;
  for (const Tensor& flat : whole) {
    gathers.push_back(shards.labeled("weights").all_gather(own_shard(flat, shards), flat));
  }
  for (Work& gather : gathers) gather.wait();
}
// [/region]

}  // namespace ultra::zero
