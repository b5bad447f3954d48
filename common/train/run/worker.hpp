#pragma once
/// @file
/// Worker: one rank's part in a training run. The frame around it is train() of trainer.hpp.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/communicator.hpp"
#include "common/data/dataset.hpp"
#include "common/tensor/device.hpp"
#include "common/trace/step_timeline.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/report/rank_meter.hpp"

namespace ultra::train {

/// @brief What a step has to be; the same on every rank.
struct StepPlan {
  std::size_t step;      ///< 1 for the first
  double learning_rate;  ///< of this step
};

/// @brief What a step gave, as far as this rank knows when it ends.
struct StepOutcome {
  double loss;           ///< mean over the tokens of the global batch, or of this rank's part of it
  double grad_norm;      ///< global norm before clipping
  bool skipped = false;  ///< whether no weight was updated: a gradient overflowed
  std::optional<double> next_loss = {};  ///< of the tokens after next, without its weight; absent:
                                         ///< nobody predicts them
};

/// @brief One rank's part in a run: holds its share of the model and makes its share of each step.
///
/// The ranks of a run may have workers of different kinds, for example trainers and servers.
/// Bodies: common/train/model_worker.cpp; chapters/04_zero/checkpoints/checkpointed_worker.cpp is
/// one around another.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  virtual ~Worker() = default;

  /// @brief Makes the next step. The frame calls it once per step, in their order.
  ///
  /// It names its phases by RunContext::timeline, and calls RankMeter::gradients_done() of
  /// RunContext::meter where its forward and backward passes end and its optimizer step begins.
  /// Communication that it starts may still be under way when it returns.
  virtual StepOutcome step(const StepPlan& plan) = 0;

  /// @brief The mean loss of this model on the first batches of another text, as it is after the
  /// last step: the same on every rank, in every layout. Nothing of the training changes.
  /// Collective.
  /// @param sampler  of the whole global batch.
  /// @throws InternalError from a worker that cannot, which flags must not ask for it.
  [[nodiscard]] virtual double validate([[maybe_unused]] const data::Sampler& sampler,
                                        [[maybe_unused]] std::size_t batches) {
    throw InternalError("a worker that cannot validate is asked to");
  }

  /// @brief What the steps gave that an earlier run has made, in their order; the same on every rank.
  /// The frame makes the steps that follow them. Called once, before the first step.
  [[nodiscard]] virtual std::vector<StepMetrics> history() { return {}; }

  /// @brief Steps up to now, with those of history(), that were skipped: the learning rate waits for
  /// them. The same on every rank.
  [[nodiscard]] virtual std::size_t skipped_steps() const { return 0; }

  /// @brief A step is over and measured: the time for what is done between steps. Collective.
  /// @param steps  one per step, in their order, with those of history().
  virtual void step_ended([[maybe_unused]] const std::vector<StepMetrics>& steps) {}

  /// @brief Elements of the whole model, over all ranks; the same on every rank.
  [[nodiscard]] virtual std::size_t parameter_count() const = 0;

  /// @brief Ends the training, after the last step: once, and not when a rank has failed.
  ///
  /// Collective over all workers of the run. Waits for what is still under way, and may replace
  /// what this rank measured alone (loss, grad_norm) by what the ranks measured together, so that
  /// these are the same on every rank afterwards. Its traffic counts as the training's.
  /// @param steps  one per step, in their order, with those of history().
  virtual void conclude([[maybe_unused]] std::vector<StepMetrics>& steps) {}
};

/// @brief What the frame of a run gives to this rank's worker; valid while the run lasts.
struct RunContext {
  const TrainOptions& options;    ///< validated
  const Communicator& world;      ///< all ranks of the run
  const data::Sampler& sampler;   ///< of the whole global batch
  const Device& device;           ///< where the rank's tensors live
  trace::StepTimeline& timeline;  ///< names the phases; the frame begins and ends the steps
  RankMeter& meter;               ///< measures the rank; the frame begins and ends the steps
};

/// @brief Makes a rank's worker, before its first step; may be collective. Each rank calls its own.
using MakeWorker = std::function<std::unique_ptr<Worker>(const RunContext&)>;

}  // namespace ultra::train
