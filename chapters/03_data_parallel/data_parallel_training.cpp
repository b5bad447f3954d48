#include "chapters/03_data_parallel/data_parallel_training.hpp"

#include <map>
#include <memory>
#include <utility>

#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/accumulation.hpp"
#include "chapters/03_data_parallel/gradient_average.hpp"

namespace ultra::data_parallel {
namespace {

/// The synchronisation of each model, which the model itself keeps: a model that is gone took it
/// along, and another one at the same address gets its own.
class SyncOfModels {
 public:
  explicit SyncOfModels(MakeGradientSync make) : make_(std::move(make)) {}

  std::shared_ptr<GradientSync> of(nn::Model& model) {
    std::weak_ptr<GradientSync>& known = known_[&model];
    std::shared_ptr<GradientSync> sync = known.lock();
    if (!sync) {
      sync = make_(model);
      known = sync;
      nn::BlockHooks keeper;
      keeper.before_forward = [sync](std::size_t) {};
      model.add_block_hooks(std::move(keeper));
    }
    return sync;
  }

 private:
  MakeGradientSync make_;
  std::map<const nn::Model*, std::weak_ptr<GradientSync>> known_;
};

}  // namespace

// [region data_parallel_forward_backward]
double pass_own_share(nn::Model& model, const data::Sampler& global, std::size_t step,
                      std::size_t micro_batch, const Communicator& dp, GradientSync& sync) {
  const data::Sampler share = global.share(share_of_batch(global.global_batch_size(), dp));
  return accumulate_and_sync(model, share, step, micro_batch, loss_normalizer(global, dp), sync);
}

train::ForwardBackward data_parallel_forward_backward(const Communicator& dp,
                                                      std::size_t micro_batch,
                                                      MakeGradientSync make_sync) {
  const auto syncs = std::make_shared<SyncOfModels>(std::move(make_sync));
  return [dp, micro_batch, syncs](nn::Model& model, const data::Sampler& global, std::size_t step) {
    const double own_loss = pass_own_share(model, global, step, micro_batch, dp, *syncs->of(model));
    return collectives::average(own_loss, model.device(), dp.labeled("loss"));
  };
}
// [/region]

}  // namespace ultra::data_parallel
