#include "chapters/03_data_parallel/gradient_watch.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

void StepState::begin(Pass pass) {
  ensure(!synchronizing_, "finish() follows the pass that synchronizes, before another begin()");
  synchronizing_ = pass == Pass::kSynchronize;
}

void StepState::finish() {
  ensure(synchronizing_, "a pass with Pass::kSynchronize comes before finish()");
  synchronizing_ = false;
}

ConfigError no_gradient(const nn::Parameter& parameter) {
  return ConfigError(
      fmt::format("{} got no gradient in the step's last backward pass, so it cannot be averaged: "
                  "every replica must use every parameter in it",
                  parameter.name()));
}

GradientWatch::GradientWatch(const nn::Model& model, const std::vector<Bucket>& buckets,
                             BucketQueue::Flush flush)
    : parameters_(model.parameters()),
      queue_(buckets, std::move(flush)),
      alive_(std::make_shared<const bool>(true)) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    parameters_[p]->on_grad_ready(
        [this, p, alive = std::weak_ptr<const bool>(alive_)](nn::Parameter&) {
          if (!alive.expired()) gradient_ready(p);
        });
  }
}

void GradientWatch::begin(Pass pass) {
  state_.begin(pass);
  if (!state_.synchronizing()) return;
  queue_.restart();
  made_.assign(parameters_.size(), false);
}

void GradientWatch::gradient_ready(std::size_t parameter) {
  if (!state_.synchronizing()) return;  // more micro-batches will add to it
  if (made_[parameter]) {
    throw ConfigError(
        fmt::format("{} got two gradients in one backward pass: its bucket may be on its way "
                    "already. Buckets need a model that uses each parameter once.",
                    parameters_[parameter]->name()));
  }
  made_[parameter] = true;
  queue_.ready(parameter);
}

void GradientWatch::finish() {
  if (state_.synchronizing()) {
    for (std::size_t p = 0; p < made_.size(); ++p) {
      if (!made_[p]) throw no_gradient(*parameters_[p]);
    }
    queue_.expect_all_flushed();
  }
  state_.finish();
}

}  // namespace ultra::data_parallel
