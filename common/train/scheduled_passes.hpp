#pragma once
/// @file
/// run_schedule: micro-batches pass the chunks of a model, forward and backward.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/train/gradients/gradient_ledger.hpp"
#include "common/train/micro_batch.hpp"
#include "common/train/stage_links.hpp"
#include "common/train/step_observer.hpp"
#include "common/train/step_schedule.hpp"
#include "common/train/token_plan.hpp"

namespace ultra::train {

/// @brief Throws the error that is being handled again, of the same type, its message followed by
/// the place; unchanged when the place is empty, when it is not one of ours, or when it is another
/// rank's, which has told its own.
/// @param place  "stage 1 of 4, F3"; may be empty.
/// @pre An error is being handled.
[[noreturn]] void rethrow_with_place(const std::string& place);

/// @brief The loss of the tokens after next.
struct NextTokenLoss {
  double weight = 1.0;   ///< with which its gradients count
  double loss = 0;       ///< written by the passes: the weighted sum that the host has of it
  Tensor loss_sum = {};  ///< as ScheduledPasses::loss_sum
};

/// @brief Passes of micro-batches through chunks of a model, in the order of a schedule.
struct ScheduledPasses {
  std::span<nn::Model* const> chunks;              ///< of this rank
  std::span<const Action> schedule;                ///< in this order
  std::span<const MicroBatch> micro_batches;       ///< what passes
  const data::Sampler& share;                      ///< draws their sequences
  std::size_t step = 0;                            ///< 0 for the first
  StageLinks* links = nullptr;                     ///< null: the chunk is the whole model
  GradientLedger* ledger = nullptr;                ///< null: nobody follows
  const TokenPlan* tokens = nullptr;               ///< null: all, and each sequence is one document
  nn::Saved::Mode saved = nn::Saved::Mode::kKeep;  ///< kDiscard: no backward pass follows
  std::span<const std::unique_ptr<StepObserver>> observers = {};  ///< told of each action
  double loss_scale = 1.0;  ///< factor on all gradients; the loss that is returned is without it
  Tensor loss_sum = {};     ///< [ops::digits_of_sums] of f64: where a device adds up losses, with
                            ///< the scale; undefined: the host reads each
  double z_loss = 0.0;      ///< nn::Pass::z_loss, where backward passes follow
  NextTokenLoss* next = nullptr;  ///< of the tokens after next; null: nobody predicts them
};

/// @brief Runs the passes: leaves the gradients in the parameters.
/// @return the sum of the losses, where there is a head, and of the terms that layers add to them
/// where backward passes follow: what the host has of them, the rest is in loss_sum. The loss of the
/// tokens after next is apart, in `next`.
/// @throws InternalError when a pass comes before what it needs. An error of an action says
/// where it took place, as the links do.
double run_schedule(const ScheduledPasses& passes);

}  // namespace ultra::train
