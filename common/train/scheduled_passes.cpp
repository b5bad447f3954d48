#include "common/train/scheduled_passes.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::train {
namespace {

/// Throws the error under way again, with the place, if it is of one of these types.
template <class First, class... Others>
void rethrow_one_of(const std::string& place) {
  try {
    throw;
  } catch (const First& error) {
    throw First(fmt::format("{} [{}]", error.what(), place));
  } catch (...) {
    if constexpr (sizeof...(Others) > 0) rethrow_one_of<Others...>(place);
  }
}

/// A micro-batch that has passed a chunk forward, and not yet backward.
struct UnderWay {
  nn::Saved saved;
  data::Batch batch;
  nn::DeferredGradients deferred;
};

/// While it lives, gradients of a chunk's weights wait in a queue.
class Deferring {
 public:
  Deferring(nn::Model& chunk, nn::DeferredGradients& queue) : chunk_(chunk), queue_(queue) {
    chunk.defer_grads_to(&queue);
  }
  Deferring(const Deferring&) = delete;
  Deferring& operator=(const Deferring&) = delete;
  ~Deferring() {
    chunk_.defer_grads_to(nullptr);
    queue_.pass_ends();
  }

 private:
  nn::Model& chunk_;
  nn::DeferredGradients& queue_;
};

/// Runs one action after the other; see run_schedule().
class Passes {
 public:
  explicit Passes(const ScheduledPasses& passes) : passes_(passes) {}

  double run() {
    if (passes_.links) passes_.links->passes_begin(passes_.schedule);
    for (std::size_t i = 0; i < passes_.schedule.size(); ++i) {
      const Action& action = passes_.schedule[i];
      for (const auto& observer : passes_.observers) observer->action_begins(action);
      if (passes_.ledger) passes_.ledger->action_begins(i);
      run_in_place(action);
      if (passes_.ledger) passes_.ledger->action_ends();
      for (const auto& observer : passes_.observers) observer->action_ends(action);
    }
    if (passes_.links) passes_.links->finish();
    if (passes_.next) passes_.next->loss = next_loss_ / passes_.loss_scale;
    return loss_;
  }

 private:
  void run_in_place(const Action& action) {
    if (!passes_.links) return run(action);
    try {
      passes_.links->action_begins(action);
      run(action);
    } catch (const Error&) {
      rethrow_with_place(passes_.links->place(action));
    }
  }

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
      case ActionKind::kUpdate:
        return;  // states that update between passes observe it
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
      // Scaled before the first gradient is rounded, by scaling the loss.
      const double normalizer =
          micro_batch.normalizer * part_with_loss_ / micro_batch.weight / passes_.loss_scale;
      loss_ +=
          model.loss(output, state.batch.targets, normalizer, state.saved) / passes_.loss_scale;
    } else {
      passes_.links->send(action, output);
    }
    if (!trains()) forget(action);
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
                  .token_weight = micro_batch.weight,
                  .loss_scale = passes_.loss_scale,
                  .loss_terms = trains() ? &loss_ : nullptr,
                  .loss_sum = passes_.loss_sum,
                  .z_loss = trains() ? passes_.z_loss : 0.0};
    const Device& device = chunk(action).device();
    data::Batch batch;
    if (stage.has_embedding || stage.has_head) {
      batch = passes_.share.batch(device.host(), passes_.step, micro_batch.sequences);
    }
    if (passes_.tokens) {
      pass.places = passes_.tokens->places(passes_.share, passes_.step, micro_batch.sequences);
    }
    if (passes_.next && stage.has_head) pass.next = next_tokens(batch, pass, device);
    batch = own_part(batch);
    const auto [at, is_new] = under_way_.try_emplace(
        {action.micro_batch, action.chunk}, nn::Saved(passes_.saved, pass), batch.on(device));
    ensure(is_new, "a micro-batch passes a chunk once");
    return at->second;
  }

  [[nodiscard]] data::Batch own_part(const data::Batch& whole) const {
    return passes_.tokens ? passes_.tokens->part_of(whole) : whole;
  }

  std::shared_ptr<const nn::NextTokens> next_tokens(const data::Batch& whole, const nn::Pass& pass,
                                                    const Device& device) {
    const data::Batch own = own_part(TokenPlan::next_of(whole, pass.places.get())).on(device);
    return std::make_shared<const nn::NextTokens>(
        nn::NextTokens{.tokens = own.tokens,
                       .targets = own.targets,
                       .weight = passes_.next->weight,
                       .loss = &next_loss_,
                       .loss_sum = passes_.next->loss_sum});
  }

  nn::Model& chunk(const Action& action) const { return *passes_.chunks[action.chunk]; }

  UnderWay& under_way(const Action& action) {
    const auto found = under_way_.find({action.micro_batch, action.chunk});
    if (found != under_way_.end()) return found->second;
    throw InternalError(fmt::format("{} comes before its forward pass", action.str()));
  }

  [[nodiscard]] bool trains() const { return passes_.saved == nn::Saved::Mode::kKeep; }
  void forget(const Action& action) { under_way_.erase({action.micro_batch, action.chunk}); }

  const ScheduledPasses& passes_;
  std::map<std::pair<std::size_t, std::size_t>, UnderWay> under_way_;  // by micro-batch and chunk
  double part_with_loss_ = passes_.share.part_with_loss(passes_.step);
  double loss_ = 0;
  double next_loss_ = 0;  // of the tokens after next, weighted and scaled
};

}  // namespace

void rethrow_with_place(const std::string& place) {
  if (place.empty()) throw;
  try {
    throw;
  } catch (const RankFailed& failed) {
    // A rank that threw has said where; one that was killed could not.
    if (failed.kind() != ErrorKind::kComm) throw;
    throw RankFailed(failed.failed_rank(), failed.kind(),
                     fmt::format("{} [{}]", failed.what(), place));
  } catch (...) {
    rethrow_one_of<CommTimeout, CommMismatch, Deadlock, ShapeError, ConfigError, FileError,
                   NumericError, OutOfMemory, InternalError>(place);
    throw;
  }
}

double run_schedule(const ScheduledPasses& passes) { return Passes(passes).run(); }

}  // namespace ultra::train
