#include "common/train/step.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/ops/sums/exact_sum.hpp"
#include "common/train/run/divergence.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::train {
namespace {

std::vector<FollowedGradients> followed_by(const std::vector<std::unique_ptr<ModelStates>>& states,
                                           const std::vector<nn::Model*>& chunks) {
  std::vector<FollowedGradients> followed;
  for (const auto& state : states) {
    if (state->exchange() == nullptr) continue;
    followed.push_back({.parameters = trained(parameters_of(chunks, state->data_group())),
                        .exchange = state->exchange()});
  }
  return followed;
}

}  // namespace

Step::Step(const RunContext& context, const Plan& plan, std::span<const nn::NamedShape> whole,
           StepParts parts)
    : context_(context),
      plan_(plan),
      numbers_(whole),
      share_(context.sampler.share(plan.share.sequences)),
      parts_(std::move(parts)),
      ledger_(parts_.chunks, followed_by(parts_.states, parts_.chunks), parts_.completes),
      sums_(context.device, numbers_.size(), predicts_further() ? 2 : 1) {
  expect_complete(plan.schedule, plan.micro_batches.size(), parts_.chunks.size());
}

// [region step]
StepOutcome Step::run(const StepPlan& step) {
  context_.timeline.enter("embedding");
  for (const auto& observer : parts_.observers) observer->step_begins(step);

  const std::vector<double> own_losses = pass_micro_batches(step);
  context_.meter.gradients_done();
  context_.timeline.enter("optimizer");
  Updates updates = complete_gradients();
  StepOutcome outcome = sum_over_ranks(own_losses, updates);
  expect_finite("loss", outcome.loss, step.step, context_.options);
  if (outcome.next_loss) {
    expect_finite("loss of the tokens after next", *outcome.next_loss, step.step, context_.options);
  }
  const double factor = parts_.scaler ? unscale(outcome) : 1.0;
  if (!outcome.skipped) {
    expect_finite("gradient norm", outcome.grad_norm, step.step, context_.options);
    const StepRule rule{.learning_rate = step.learning_rate,
                        .norm = outcome.grad_norm,
                        .clip_norm = context_.options.clip_norm};
    update_weights(updates, rule, factor);
  }
  updates.clear();

  context_.timeline.enter("gradients freed");
  for (const auto& states : parts_.states) states->drop_gradients();
  for (const auto& observer : parts_.observers) {
    outcome.skipped ? observer->step_skipped(step) : observer->step_ends(step);
  }
  for (const auto& states : parts_.states) states->step_ended(context_.meter);
  return outcome;
}
// [/region]

/// A step that overflowed on one rank is skipped on all: they have the same norm.
double Step::unscale(StepOutcome& outcome) const {
  context_.meter.note("loss_scale", {parts_.scaler->scale()});
  const ScaledGradients found = parts_.scaler->step_ends(outcome.grad_norm);
  context_.meter.note("skipped", {found.overflow ? 1.0 : 0.0});
  outcome.skipped = found.overflow;
  // Whether it is NaN or infinite depends on the order of sums.
  outcome.grad_norm = found.overflow ? std::numeric_limits<double>::infinity() : found.norm;
  return found.factor;
}

void Step::update_weights(const Updates& updates, const StepRule& rule, double factor) const {
  for (std::size_t group = 0; group < updates.size(); ++group) {
    if (parts_.scaler) parts_.states[group]->optimizer().set_gradient_factor(factor);
    parts_.states[group]->update(updates[group], rule);
  }
}

double Step::validate(const data::Sampler& sampler, std::size_t batches) {
  const data::Sampler share = sampler.share(plan_.share.sequences);
  const StepSchedule forwards = forwards_of(plan_.schedule);
  const RankCounters counted = *plan_.counters;
  for (const auto& states : parts_.states) states->passes_begin(forwards);
  const StepSums sums(context_.device, 0);
  double loss = 0;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    loss += pass_forward(share, batch, forwards, sums.loss_on_device());
  }
  std::vector<double> own = sums.read();
  own.back() += loss;
  for (const auto& states : parts_.states) states->passes_begin(plan_.schedule);
  for (const auto& observer : parts_.observers) observer->validation_ends();
  *plan_.counters = counted;
  if (!plan_.counts_loss()) std::ranges::fill(own, 0.0);
  sum_over(plan_.ranks().labeled("validation loss"), own);
  return ops::rounded_sums(own, own.size()).back() / static_cast<double>(batches);
}

double Step::pass_forward(const data::Sampler& share, std::size_t batch,
                          const StepSchedule& forwards, const Tensor& loss_sum) const {
  return run_schedule({.chunks = parts_.chunks,
                       .schedule = forwards,
                       .micro_batches = plan_.micro_batches,
                       .share = share,
                       .step = batch,
                       .links = parts_.links.get(),
                       .tokens = &plan_.tokens,
                       .saved = nn::Saved::Mode::kDiscard,
                       .loss_sum = loss_sum});
}

/// The passes, during which gradients travel; afterwards the sums over the data groups are there.
std::vector<double> Step::pass_micro_batches(const StepPlan& step) {
  ledger_.step_begins(plan_.schedule);
  sums_.begin();
  NextTokenLoss next{.weight = context_.options.mtp_weight};
  if (predicts_further()) next.loss_sum = sums_.loss_on_device(1);
  const double loss = run_schedule({.chunks = parts_.chunks,
                                    .schedule = plan_.schedule,
                                    .micro_batches = plan_.micro_batches,
                                    .share = share_,
                                    .step = step.step - 1,
                                    .links = parts_.links.get(),
                                    .ledger = &ledger_,
                                    .tokens = &plan_.tokens,
                                    .observers = parts_.observers,
                                    .loss_scale = loss_scale(),
                                    .loss_sum = sums_.loss_on_device(),
                                    .z_loss = context_.options.head_z_loss,
                                    .next = predicts_further() ? &next : nullptr});
  ledger_.step_ends();
  for (const auto& states : parts_.states) {
    if (states->exchange() != nullptr) states->exchange()->finish();
  }
  if (!predicts_further()) return {loss};
  return {loss, next.loss};
}

/// Adds up over the other groups what several ranks have a part of; data groups have done so.
Step::Updates Step::complete_gradients() {
  Updates updates;
  std::vector<GradientPiece> pieces;
  for (const auto& states : parts_.states) {
    updates.push_back(states->updates());
    for (std::size_t i = 0; i < updates.back().size(); ++i) {
      pieces.push_back(
          {.parameter = states->pieces()[i].parameter, .grad = updates.back()[i].grad});
    }
  }
  if (parts_.sum_partial) parts_.sum_partial(pieces, plan_.groups);
  return updates;
}

/// Losses and norm travel together: what one rank finds not finite, all do.
StepOutcome Step::sum_over_ranks(std::span<const double> own_losses, const Updates& updates) {
  for (std::size_t group = 0; group < updates.size(); ++group) {
    parts_.states[group]->add_squares(updates[group], numbers_, sums_);
  }
  std::vector<double> sums = sums_.read();
  const std::size_t digits = ops::digits_of_sums(context_.device);
  const std::span<double> losses = std::span(sums).last(digits * own_losses.size());
  for (std::size_t i = 0; i < own_losses.size(); ++i) {
    double& last_digit = losses[(i + 1) * digits - 1];
    last_digit = local_loss(own_losses[i], last_digit);
  }
  if (!plan_.counts_loss()) std::ranges::fill(losses, 0.0);
  sum_over(plan_.in_step.labeled("loss and norm"), sums);
  sums = ops::rounded_sums(sums, digits);
  StepOutcome outcome{.loss = sums[numbers_.size()],
                      .grad_norm = norm_of(std::span(sums).first(numbers_.size()))};
  if (predicts_further()) outcome.next_loss = sums.back() / context_.options.mtp_weight;
  return outcome;
}

}  // namespace ultra::train
