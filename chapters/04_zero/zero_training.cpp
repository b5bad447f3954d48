#include "chapters/04_zero/zero_training.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/gradient_average.hpp"
#include "chapters/04_zero/offload/storage_trace.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/base/numeric.hpp"
#include "common/train/agree.hpp"
#include "common/train/divergence.hpp"

namespace ultra::zero {

using data_parallel::Pass;

// [region pass_in_lockstep]
double pass_in_lockstep(nn::Model& model, const data::Sampler& global, std::size_t step,
                        std::size_t micro_batch, const Communicator& dp,
                        data_parallel::GradientSync& sync) {
  const std::size_t batch_size = global.global_batch_size();
  const auto replicas = checked_cast<std::size_t>(dp.size());
  const data::Sampler share = global.share(data_parallel::share_of_batch(batch_size, dp));
  const std::size_t own = share.global_batch_size();
  const std::size_t largest = (batch_size + replicas - 1) / replicas;
  const double normalizer = data_parallel::loss_normalizer(global, dp);
  double loss = 0;
  for (std::size_t begin = 0; begin < largest; begin += micro_batch) {
    sync.begin(begin + micro_batch < largest ? Pass::kAccumulate : Pass::kSynchronize);
    const bool has_work = begin < own;
    const Range sequences =
        has_work ? Range{begin, std::min(begin + micro_batch, own)} : Range{own - 1, own};
    const data::Batch batch = share.batch(model.device(), step, sequences);
    nn::Saved saved;
    loss += model.loss(model.forward(batch.tokens, saved), batch.targets,
                       has_work ? normalizer : std::numeric_limits<double>::infinity(), saved);
    model.backward(saved);
  }
  sync.finish();
  return loss;
}
// [/region]

namespace {

class ZeroWorker : public train::Worker {
 public:
  ZeroWorker(const train::RunContext& context, const ShardGroups& ranks,
             const ZeroSettings& settings, const ZeroParts& parts)
      : context_(context),
        ranks_(ranks),
        finish_gradients_(parts.finish_gradients),
        worker_(context, trainer_parts(parts)),
        sharded_(make_sharded(settings)),
        offloaded_(sharded_->offloaded()),
        adamw_(std::make_shared<optim::AdamW>(
            optim::AdamWConfig{}, parts.adamw,
            offloaded_ ? offloaded_moments(offloaded_) : optim::moments_on_device())) {
    if (offloaded_) show_storage_on(*offloaded_, context.timeline);
  }

  train::StepOutcome step(const train::StepPlan& plan) override {
    const train::StepOutcome outcome = worker_.step(plan);
    if (offloaded_) context_.meter.storage_used(offloaded_->use());
    return outcome;
  }

  void conclude([[maybe_unused]] std::vector<train::StepMetrics>& steps) override {
    if (!offloaded_) return;
    offloaded_->settle();
    context_.meter.storage_used(offloaded_->use());
  }

  std::size_t parameter_count() const override { return worker_.parameter_count(); }

  /// What the worker trains; ends with it.
  TrainingState state() { return sharded_state(worker_.model(), *sharded_, adamw_, ranks_); }

 private:
  /// Storage may be missing on one rank only: then all ranks end alike, before the first step.
  std::unique_ptr<ShardedModel> make_sharded(const ZeroSettings& settings) {
    std::unique_ptr<ShardedModel> made;
    const auto make = [&] { made = shard_model(worker_.model(), ranks_, settings); };
    if (settings.offload.what == Offload::kNone) {
      make();
    } else {
      train::agree(context_.world, make);
    }
    return made;
  }

  double finish(std::span<const optim::TensorUpdate> own) const {
    if (!finish_gradients_) return sharded_norm(own, ranks_.shards);
    std::vector<train::GradientPiece> pieces;
    for (std::size_t i = 0; i < own.size(); ++i) {
      pieces.push_back({.parameter = sharded_->pieces()[i].parameter, .grad = own[i].grad});
    }
    return finish_gradients_(pieces);
  }

  // [region zero_worker]
  train::TrainerParts trainer_parts(const ZeroParts& parts) {
    train::ForwardBackward passes = [this, micro_batch = parts.micro_batch](
                                        nn::Model& model, const data::Sampler& global,
                                        std::size_t step) {
      const double own =
          pass_in_lockstep(model, global, step, micro_batch, ranks_.dp, sharded_->sync());
      return collectives::average(own, model.device(), ranks_.dp.labeled("loss"));
    };
    train::Update update = [this](nn::Model&, const train::StepPlan& plan) {
      const std::vector<optim::TensorUpdate> own = sharded_->own();
      const double norm = finish(own);
      train::expect_finite("gradient norm", norm, plan.step, context_.options);
      step_own_shard(own, sharded_->whole(),
                     {.learning_rate = plan.learning_rate,
                      .norm = norm,
                      .clip_norm = context_.options.clip_norm},
                     *adamw_, ranks_.shards);
      sharded_->drop_gradients();
      return norm;
    };
    if (parts.change_passes) passes = parts.change_passes(std::move(passes));
    if (parts.change_update) update = parts.change_update(std::move(update));
    return {.factory = parts.factory,
            .forward_backward = std::move(passes),
            .update = std::move(update),
            .extra_config = {},
            .values = nn::Values::kDeferred};
  }
  // [/region]

  train::RunContext context_;
  ShardGroups ranks_;
  train::FinishGradients finish_gradients_;
  train::ModelWorker worker_;
  std::unique_ptr<ShardedModel> sharded_;
  std::shared_ptr<OffloadedStates> offloaded_;  // null: all on the device
  std::shared_ptr<optim::AdamW> adamw_;
};

}  // namespace

train::MakeWorker zero_worker(const ShardGroups& ranks, const ZeroSettings& settings,
                              const ZeroParts& parts) {
  return
      [ranks, settings, parts](const train::RunContext& context) -> std::unique_ptr<train::Worker> {
        auto worker = std::make_unique<ZeroWorker>(context, ranks, settings, parts);
        if (!parts.keep_state) return worker;
        auto state = std::make_unique<TrainingState>(worker->state());
        return parts.keep_state(std::move(worker), std::move(state), context);
      };
}

}  // namespace ultra::zero
