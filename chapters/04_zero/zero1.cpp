#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::zero {
namespace {

using data_parallel::Flush;

// [region zero1]
/// ZeRO-1: all weights and gradients, and the optimizer's states of this rank's shard. A step, in the
/// order of time:
class Zero1 final : public ShardedModel {
 public:
  Zero1(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings)
      : ShardedModel(scope,
                     groups_by_bucket(scope.chunks, train::trained(scope.parameters),
                                      settings.bucket_capacity, ranks.shards.size()),
                     kept_as_wholes(train::frozen(scope.parameters), ranks.dp), ranks,
                     settings.offload),
        parameters_(train::trained(scope.parameters)) {
    keep_whole_weights(scope.parameters);
    if (groups().empty()) return;  // all are frozen
    // 1. A bucket of gradients is reduce-scattered when the step's last backward pass has
    //    completed it; the pass goes on meanwhile.
    reduce_scatters_ = data_parallel::sum_in_buckets(
        parameters_, as_buckets(groups()),
        settings.overlap == Overlap::kOn ? Flush::kWhenReady : Flush::kAfterBackward,
        reduce_scatter_exchange(ranks), static_cast<std::size_t>(ranks.shards.size()));
  }
  train::GradientExchange* exchange() override { return reduce_scatters_.get(); }

  // 2. What this rank then reads of the whole gradients is its own shard, the only one that is
  //    summed.
  Tensor gradient(std::size_t piece) override {
    const Tensor& whole = pieces()[piece].parameter->grad();
    return whole.view({whole.numel()}).slice(0, pieces()[piece].elements);
  }

  // 3. It updates its shard of the weights, and an all-gather brings those of the others.
  void update(std::span<const optim::TensorUpdate> own, const train::StepRule& rule) override {
    step_own_shard(own, whole(), rule, optimizer(), shards());
  }

  // 4. Only now are the whole gradients free.
  void drop_gradients() override {
    for (nn::Parameter* parameter : parameters_) parameter->drop_grad();
  }

 private:
  std::vector<nn::Parameter*> parameters_;
  std::unique_ptr<train::GradientExchange> reduce_scatters_;
};
// [/region]

}  // namespace

data_parallel::MakeBucketExchange reduce_scatter_exchange(const ShardGroups& groups) {
  return [groups](const data_parallel::BucketContents& contents, const Device&, DType) {
    ShardGroups labeled = groups;
    labeled.shards = groups.shards.labeled("reduce " + contents.label());
    return std::make_unique<ReduceScatterExchange>(std::move(labeled));
  };
}

std::unique_ptr<ShardedModel> zero1(const ShardedScope& scope, const ShardGroups& ranks,
                                    const ZeroSettings& settings) {
  return std::make_unique<Zero1>(scope, ranks, settings);
}

}  // namespace ultra::zero
