#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/shards/tree_reducer.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::zero {
namespace {

// [region zero2]
/// ZeRO-2: all weights, and gradients and the optimizer's states of this rank's shard. A step, in the
/// order of time:
class Zero2 final : public ShardedModel {
 public:
  Zero2(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings)
      : ShardedModel(scope,
                     groups_by_bucket(scope.chunks, train::trained(scope.parameters),
                                      settings.bucket_capacity, ranks.shards.size()),
                     kept_as_wholes(train::frozen(scope.parameters), ranks.dp), ranks,
                     settings.offload),
        // 1. A bucket of gradients is reduce-scattered as soon as any backward pass has completed
        //    it: this rank's shard of the sum is kept, and the bucket's memory is free again.
        gradients_(groups(),
                   joined_by_tree(shard_reducer(groups(), ranks, settings.overlap, scope.schedule),
                                  groups(), scope.schedule),
                   Departure::kWhenComplete) {
    keep_whole_weights(scope.parameters);
  }
  train::GradientExchange* exchange() override { return gradients_.used(); }

  // 2. After the passes each shard is the sum of all of them.
  Tensor gradient(std::size_t piece) override {
    return gradients_.shard(site(piece).group).slice(0, site(piece).elements);
  }

  // 3. As in ZeRO-1: the step of this rank's shard, then an all-gather of the weights.
  void update(std::span<const optim::TensorUpdate> own, const train::StepRule& rule) override {
    step_own_shard(own, whole(), rule, optimizer(), shards());
  }

  // 4. The shards are free.
  void drop_gradients() override { gradients_.drop(); }

 private:
  GradientShards gradients_;
};
// [/region]

}  // namespace

std::unique_ptr<ShardedModel> zero2(const ShardedScope& scope, const ShardGroups& ranks,
                                    const ZeroSettings& settings) {
  return std::make_unique<Zero2>(scope, ranks, settings);
}

}  // namespace ultra::zero
