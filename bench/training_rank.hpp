#pragma once
/// @file
/// One rank that trains in a benchmark.

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "common/data/dataset.hpp"
#include "common/train/model_worker.hpp"

namespace ultra::bench {

/// @brief The options of a training in which every rank passes so many sequences at once.
[[nodiscard]] inline train::TrainOptions benchmark_options(const nn::ModelConfig& model,
                                                           std::size_t sequences, int ranks) {
  train::TrainOptions options;
  options.model = model;
  options.micro_batch = sequences;
  options.global_batch = sequences * static_cast<std::size_t>(ranks);
  return options;
}

/// What ranks that share layers change in a rank's plan, and in its factories.
using ChangeLayers = std::function<void(train::Plan& plan, train::FactoryStack& factories)>;

/// @brief Makes the steps of a training, without the frame that measures and reports.
class TrainingRank {
 public:
  /// @param ranks        those that train; each has all layers.
  /// @param step_config  what differs from plain replicas. Options and text outlive this object.
  TrainingRank(const Communicator& ranks, const train::TrainOptions& options,
               const data::Dataset& text, train::StepConfig step_config)
      : TrainingRank(ranks, options, text, std::move(step_config),
                     MeshShape({replicas(static_cast<std::size_t>(ranks.size()))}), {}) {}

  /// @param ranks   those that train, as a mesh of that shape.
  /// @param change  may be empty.
  TrainingRank(const Communicator& ranks, const train::TrainOptions& options,
               const data::Dataset& text, train::StepConfig step_config, const MeshShape& shape,
               const ChangeLayers& change)
      : ranks_(ranks),
        sampler_(text, options.model.max_seq_len, options.global_batch, options.seed),
        timeline_(device_, nullptr, 0),
        meter_(ranks_, device_),
        context_{options, ranks_, sampler_, device_, timeline_, meter_},
        worker_(made(context_, std::move(step_config), shape, change)) {}

  /// @brief Makes the next step.
  train::StepOutcome step() { return worker_.step({.step = ++steps_, .learning_rate = 1e-4}); }

  /// @brief What the rank keeps.
  [[nodiscard]] train::TrainerState state() const { return worker_.state(); }

 private:
  static train::ModelWorker made(const train::RunContext& context, train::StepConfig step_config,
                                 const MeshShape& shape, const ChangeLayers& change) {
    step_config.completes.offer(data_parallel::completing_action);
    const auto plan = std::make_shared<train::Plan>(
        train::make_plan(context.options, context.world, shape,
                         {.share = data_parallel::share_of_batch,
                          .cut = data_parallel::cut_share,
                          .schedule = memory::accumulation_schedule}));
    train::FactoryStack factories;
    factories.push_back(std::make_unique<nn::DenseFactory>());
    if (change) change(*plan, factories);
    return {context, plan, std::move(factories), step_config};
  }

  Communicator ranks_;
  data::Sampler sampler_;
  Device device_ = Device::cpu();
  trace::StepTimeline timeline_;
  train::RankMeter meter_;
  train::RunContext context_;
  train::ModelWorker worker_;
  std::size_t steps_ = 0;
};

}  // namespace ultra::bench
