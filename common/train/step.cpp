#include "common/train/step.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/base/errors.hpp"
#include "common/train/frame/divergence.hpp"

namespace ultra::train {
namespace {

/// A micro-batch that has passed a chunk forward, and not yet backward.
struct UnderWay {
  nn::Saved saved;
  data::Batch batch;
  nn::DeferredGradients deferred;
};

/// While it lives, gradients of a chunk's weights wait in a queue.
class Deferring {
 public:
  Deferring(nn::Model& chunk, nn::DeferredGradients& queue) : chunk_(chunk) {
    chunk.defer_grads_to(&queue);
  }
  Deferring(const Deferring&) = delete;
  Deferring& operator=(const Deferring&) = delete;
  ~Deferring() { chunk_.defer_grads_to(nullptr); }

 private:
  nn::Model& chunk_;
};

/// Runs one action after the other; see run_schedule().
class Passes {
 public:
  explicit Passes(const ScheduledPasses& passes) : passes_(passes) {}

  double run() {
    for (std::size_t i = 0; i < passes_.schedule.size(); ++i) {
      if (passes_.ledger) passes_.ledger->action_begins(i);
      run(passes_.schedule[i]);
      if (passes_.ledger) passes_.ledger->action_ends();
    }
    if (passes_.links) passes_.links->finish();
    return loss_;
  }

 private:
  void run(const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward:
        return forward(action);
      case ActionKind::kBackward:
        backward(action);
        return forget(action);
      case ActionKind::kBackwardInput: {
        const Deferring deferring(chunk(action), under_way(action).deferred);
        return backward(action);
      }
      case ActionKind::kBackwardWeight:
        under_way(action).deferred.run();
        return forget(action);
    }
  }

  void forward(const Action& action) {
    const MicroBatch& micro_batch = passes_.micro_batches[action.micro_batch];
    nn::Model& model = chunk(action);
    UnderWay& state = begin(action, micro_batch);
    const Tensor input =
        model.stage().has_embedding ? state.batch.tokens : passes_.links->receive(action);
    const Tensor output = model.forward(input, state.saved);
    if (model.stage().has_head) {
      // What weighs nothing is divided by infinity: its loss and its gradients are zeros.
      loss_ += model.loss(output, state.batch.targets, micro_batch.normalizer / micro_batch.weight,
                          state.saved);
    } else {
      passes_.links->send(action, output);
    }
    if (passes_.saved == nn::Saved::Mode::kDiscard) forget(action);
  }

  void backward(const Action& action) {
    nn::Model& model = chunk(action);
    nn::Saved& saved = under_way(action).saved;
    const Tensor d_input = model.stage().has_head
                               ? model.backward(saved)
                               : model.backward(passes_.links->receive_gradient(action), saved);
    if (d_input.defined()) passes_.links->send_gradient(action, d_input);
  }

  UnderWay& begin(const Action& action, const MicroBatch& micro_batch) {
    const nn::StageSpec& stage = chunk(action).stage();
    nn::Pass pass{.step = passes_.step,
                  .micro_batch = action.micro_batch,
                  .chunk = action.chunk,
                  .token_weight = micro_batch.weight};
    data::Batch batch;
    if (stage.has_embedding || stage.has_head) {
      batch = passes_.share.batch(chunk(action).device(), passes_.step, micro_batch.sequences);
    }
    if (passes_.tokens) {
      pass.places = passes_.tokens->places(passes_.share, passes_.step, micro_batch.sequences);
      batch = passes_.tokens->part_of(batch);
    }
    const auto [at, is_new] = under_way_.try_emplace({action.micro_batch, action.chunk},
                                                     nn::Saved(passes_.saved, pass), batch);
    ensure(is_new, "a micro-batch passes a chunk once");
    return at->second;
  }

  nn::Model& chunk(const Action& action) const { return *passes_.chunks[action.chunk]; }

  UnderWay& under_way(const Action& action) {
    const auto found = under_way_.find({action.micro_batch, action.chunk});
    if (found != under_way_.end()) return found->second;
    throw InternalError(fmt::format("{} comes before its forward pass", action.str()));
  }

  void forget(const Action& action) { under_way_.erase({action.micro_batch, action.chunk}); }

  const ScheduledPasses& passes_;
  std::map<std::pair<std::size_t, std::size_t>, UnderWay> under_way_;  // by micro-batch and chunk
  double loss_ = 0;
};

std::vector<FollowedGradients> followed_by(const std::vector<std::unique_ptr<ModelStates>>& states,
                                           const std::vector<nn::Model*>& chunks) {
  std::vector<FollowedGradients> followed;
  for (const auto& state : states) {
    if (state->exchange() == nullptr) continue;
    followed.push_back(
        {.parameters = parameters_of(chunks, state->data_group()), .exchange = state->exchange()});
  }
  return followed;
}

}  // namespace

double run_schedule(const ScheduledPasses& passes) { return Passes(passes).run(); }

Step::Step(const RunContext& context, const Plan& plan, std::span<const nn::NamedShape> whole,
           StepParts parts)
    : context_(context),
      plan_(plan),
      numbers_(whole),
      share_(context.sampler.share(plan.share.sequences)),
      parts_(std::move(parts)),
      ledger_(parts_.chunks, followed_by(parts_.states, parts_.chunks), parts_.completes) {
  expect_complete(plan.schedule, plan.micro_batches.size(), parts_.chunks.size());
}

// [region step]
StepOutcome Step::run(const StepPlan& step) {
  context_.timeline.enter("embedding");
  for (const auto& observer : parts_.observers) observer->step_begins(step);

  const double own_loss = pass_micro_batches(step);
  context_.meter.gradients_done();
  context_.timeline.enter("optimizer");
  Updates updates = complete_gradients();
  const StepOutcome outcome =
      parts_.own_outcome ? parts_.own_outcome(own_loss) : sum_over_ranks(own_loss, updates);
  expect_finite("loss", outcome.loss, step.step, context_.options);
  expect_finite("gradient norm", outcome.grad_norm, step.step, context_.options);
  const StepRule rule{.learning_rate = step.learning_rate,
                      .norm = outcome.grad_norm,
                      .clip_norm = context_.options.clip_norm};
  for (std::size_t group = 0; group < updates.size(); ++group) {
    parts_.states[group]->update(updates[group], rule);
  }
  updates.clear();

  context_.timeline.enter("gradients freed");
  for (const auto& states : parts_.states) states->drop_gradients();
  for (const auto& observer : parts_.observers) observer->step_ends(step);
  for (const auto& states : parts_.states) states->step_ended(context_.meter);
  return outcome;
}
// [/region]

double Step::validate(const data::Sampler& sampler, std::size_t batches) {
  const data::Sampler share = sampler.share(plan_.share.sequences);
  const StepSchedule forwards = forwards_of(plan_.schedule);
  const RankCounters counted = *plan_.counters;
  for (const auto& states : parts_.states) states->validation_begins(forwards);
  double loss = 0;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    loss += pass_forward(share, batch, forwards);
  }
  for (const auto& states : parts_.states) states->validation_ends();
  *plan_.counters = counted;
  if (!plan_.counts_loss()) loss = 0;
  sum_over(plan_.ranks().labeled("validation loss"), std::span(&loss, 1));
  return loss / static_cast<double>(batches);
}

double Step::pass_forward(const data::Sampler& share, std::size_t batch,
                          const StepSchedule& forwards) const {
  return run_schedule({.chunks = parts_.chunks,
                       .schedule = forwards,
                       .micro_batches = plan_.micro_batches,
                       .share = share,
                       .step = batch,
                       .links = parts_.links.get(),
                       .tokens = &plan_.tokens,
                       .saved = nn::Saved::Mode::kDiscard});
}

/// The passes, during which gradients travel; afterwards the sums over the data groups are there.
double Step::pass_micro_batches(const StepPlan& step) {
  ledger_.step_begins(plan_.schedule);
  const double loss = run_schedule({.chunks = parts_.chunks,
                                    .schedule = plan_.schedule,
                                    .micro_batches = plan_.micro_batches,
                                    .share = share_,
                                    .step = step.step - 1,
                                    .links = parts_.links.get(),
                                    .ledger = &ledger_,
                                    .tokens = &plan_.tokens});
  ledger_.step_ends();
  for (const auto& states : parts_.states) {
    if (states->exchange() != nullptr) states->exchange()->finish();
  }
  return loss;
}

/// What other ranks have a part of is added up: data groups have done so, now the others.
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

/// Loss and norm travel together: what one rank finds not finite, all do.
StepOutcome Step::sum_over_ranks(double own_loss, const Updates& updates) const {
  std::vector<double> sums(numbers_.size() + 1, 0.0);
  const std::span<double> squares(sums.data(), numbers_.size());
  for (std::size_t group = 0; group < updates.size(); ++group) {
    add_owned_squares(*parts_.states[group], updates[group], numbers_, squares);
  }
  sums.back() = plan_.counts_loss() ? own_loss : 0.0;
  sum_over(plan_.ranks().labeled("loss and norm"), sums);
  return {.loss = sums.back(), .grad_norm = norm_of(squares)};
}

}  // namespace ultra::train
