#pragma once
/// @file
/// What the frame of a run gives to a rank, for tests of what stands in it.

#include <memory>
#include <utility>

#include "common/optim/adamw.hpp"
#include "common/train/gradients/model_states.hpp"
#include "common/train/plan.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train::test {

using namespace ultra::test;

/// @brief A rank's context and its plan of a plain training.
class RankFrame {
 public:
  /// @param options  outlive this.
  RankFrame(const TrainOptions& options, const Communicator& world)
      : dataset_(data::Dataset::from_file(ultra::test::kText)),
        sampler_(dataset_, options.model.max_seq_len, options.global_batch, options.seed),
        timeline_(device, nullptr, 0),
        meter(world, device),
        context{.options = options,
                .world = world,
                .sampler = sampler_,
                .device = device,
                .timeline = timeline_,
                .meter = meter} {
    StepConfig plain;
    ultra::test::plain_training()->configure_step(plain, Setup());
    plan = std::make_shared<Plan>(make_plan(
        options, world, MeshShape({replicas(static_cast<std::size_t>(world.size()))}),
        {.share = plain.share.get(), .cut = plain.cut.get(), .schedule = plain.schedule.get()}));
  }

  /// @brief The states of a model that every rank has as a whole; nobody adds up its gradients.
  [[nodiscard]] std::unique_ptr<ModelStates> states_of(nn::Model& model,
                                                       optim::Rule rule = optim::adamw()) const {
    return std::make_unique<ReplicatedStates>(StatesScope{{context, *plan, {&model}},
                                                          std::string(nn::kDataGroup),
                                                          model.parameters(),
                                                          plan->groups.at(nn::kDataGroup),
                                                          {.rule = std::move(rule)}},
                                              nullptr);
  }

 private:
  data::Dataset dataset_;
  data::Sampler sampler_;

 public:
  Device device = Device::cpu();

 private:
  trace::StepTimeline timeline_;

 public:
  RankMeter meter;
  RunContext context;
  std::shared_ptr<Plan> plan;
};

}  // namespace ultra::train::test
