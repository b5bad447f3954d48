#include "common/train/model_worker.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/train/divergence.hpp"

namespace ultra::train {

ModelWorker::ModelWorker(const RunContext& context, TrainerParts parts)
    : context_(context),
      parts_(std::move(parts)),
      model_(context.options.model, context.device, context.options.dtype, context.options.seed,
             parts_.factory, nn::StageSpec::whole(context.options.model), parts_.values) {
  name_phases();
}

void ModelWorker::name_phases() {
  trace::StepTimeline& timeline = context_.timeline;
  const std::size_t last = context_.options.model.num_layers - 1;
  model_.add_block_hooks({.before_forward =
                              [&timeline](std::size_t layer) {
                                timeline.enter(fmt::format("forward, block {}", layer));
                              },
                          .after_forward =
                              [&timeline, last](std::size_t layer) {
                                if (layer == last) timeline.enter("head and loss");
                              },
                          .before_backward =
                              [&timeline](std::size_t layer) {
                                timeline.enter(fmt::format("backward, block {}", layer));
                              },
                          .after_backward =
                              [&timeline](std::size_t layer) {
                                if (layer == 0) timeline.enter("embedding");
                              }});
}

std::size_t ModelWorker::parameter_count() const {
  std::size_t count = 0;
  for (const nn::Parameter* parameter : model_.parameters()) {
    count += parameter->global_shape().numel();
  }
  return count;
}

StepOutcome ModelWorker::step(const StepPlan& plan) {
  context_.timeline.enter("embedding");
  const double loss = parts_.forward_backward(model_, context_.sampler, plan.step - 1);
  expect_finite("loss", loss, plan.step, context_.options);
  context_.meter.gradients_done();
  context_.timeline.enter("optimizer");
  const double grad_norm = parts_.update(model_, plan);
  context_.timeline.enter("gradients freed");
  model_.drop_grads();
  return {.loss = loss, .grad_norm = grad_norm};
}

}  // namespace ultra::train
