#include "common/train/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "build_config.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/units.hpp"
#include "common/optim/clip.hpp"
#include "common/optim/schedule.hpp"
#include "common/trace/step_timeline.hpp"
#include "common/trace/trace_recorder.hpp"
#include "common/train/progress.hpp"

namespace ultra::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

data::Dataset open_data(const TrainOptions& options) {
  return options.data.empty() ? data::Dataset::workbook(build::kSourceDir)
                              : data::Dataset::from_file(options.data);
}

/// The trace file, opened before training and written after it.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) {
    if (path.empty()) return;
    file_.emplace(path, "trace file (--trace)");
    recorder_.emplace(0);
  }

  [[nodiscard]] trace::TraceRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

  void finish() {
    if (!file_) return;
    file_->write(recorder_->json());
    file_->commit();
  }

 private:
  std::optional<AtomicFile> file_;
  std::optional<trace::TraceRecorder> recorder_;
};

class Trainer {
 public:
  Trainer(const TrainOptions& options, const TrainerParts& parts)
      : options_(options),
        parts_(parts),
        dataset_(open_data(options)),
        sampler_(dataset_, options.model.max_seq_len, options.global_batch, options.seed),
        metrics_(options.metrics),
        trace_(options.trace),
        device_(Device::create(options.device)),
        timeline_(device_, trace_.recorder(), options.trace_steps),
        model_(options.model, device_, options.dtype, options.seed, parts.factory),
        optimizer_({}, parts.adamw),
        schedule_{.peak = options.learning_rate,
                  .warmup_steps = options.warmup,
                  .total_steps = options.steps} {
    name_phases();
  }

  TrainResult run() {
    introduce();
    Progress progress(options_.steps, stdout);
    const auto start = Clock::now();
    for (std::size_t step = 1; step <= options_.steps; ++step) {
      throw_if_interrupted();
      const StepMetrics metrics = run_step(step);
      result_.steps.push_back(metrics);
      metrics_.add_step(metrics);
      progress.show(step, metrics.loss, metrics.tokens_per_second);
    }
    result_.seconds = seconds_between(start, Clock::now());
    return finish();
  }

 private:
  void introduce() const {
    fmt::print("{} parameters in {}, trained on {} ({} of text)\n",
               format_count(model_.parameter_count()), to_string(options_.dtype), dataset_.source(),
               format_bytes(dataset_.size()));
    std::fflush(stdout);
  }

  void name_phases() {
    const std::size_t last = options_.model.num_layers - 1;
    model_.add_block_hooks({.before_forward =
                                [this](std::size_t layer) {
                                  timeline_.enter(fmt::format("forward, block {}", layer));
                                },
                            .after_forward =
                                [this, last](std::size_t layer) {
                                  if (layer == last) timeline_.enter("head and loss");
                                },
                            .before_backward =
                                [this](std::size_t layer) {
                                  timeline_.enter(fmt::format("backward, block {}", layer));
                                },
                            .after_backward =
                                [this](std::size_t layer) {
                                  if (layer == 0) timeline_.enter("embedding");
                                }});
  }

  StepMetrics run_step(std::size_t step) {
    const auto begin = Clock::now();
    timeline_.begin_step(step);
    timeline_.enter("embedding");
    StepMetrics metrics{.step = step,
                        .loss = parts_.forward_backward(model_, sampler_, step - 1),
                        .grad_norm = 0,
                        .learning_rate = schedule_.at(step),
                        .tokens_per_second = 0};
    check_finite("loss", metrics.loss, step);
    const auto optimizer_begin = Clock::now();
    timeline_.enter("optimizer");
    metrics.grad_norm = optimize(metrics.learning_rate, step);
    timeline_.enter("gradients freed");
    model_.drop_grads();
    timeline_.end_step();
    const auto end = Clock::now();
    seconds_.forward_backward += seconds_between(begin, optimizer_begin);
    seconds_.optimizer += seconds_between(optimizer_begin, end);
    metrics.tokens_per_second =
        static_cast<double>(sampler_.global_tokens()) / seconds_between(begin, end);
    return metrics;
  }

  double optimize(double learning_rate, std::size_t step) {
    std::vector<Tensor> grads;
    std::vector<optim::TensorUpdate> updates;
    for (nn::Parameter* parameter : model_.parameters()) {
      grads.push_back(parameter->grad());
      updates.push_back({.value = parameter->value(),
                         .grad = parameter->grad(),
                         .decay = parameter->global_shape().rank() > 1});
    }
    const double norm = optim::global_norm(grads);
    check_finite("gradient norm", norm, step);
    optimizer_.step(updates, learning_rate, optim::clip_coefficient(norm, options_.clip_norm));
    return norm;
  }

  void check_finite(const char* what, double value, std::size_t step) const {
    if (std::isfinite(value)) return;
    throw NumericError(
        fmt::format("the {} is {} at step {}. Training diverged: lower --lr ({}), raise --warmup "
                    "({}) or clip with --clip ({}).",
                    what, std::isnan(value) ? std::abs(value) : value, step, options_.learning_rate,
                    options_.warmup, options_.clip_norm));
  }

  TrainResult finish() {
    seconds_.compute = seconds_.forward_backward + seconds_.optimizer;
    result_.parameters = model_.parameter_count();
    result_.ranks.push_back({.rank = 0,
                             .memory = device_.memory(),
                             .reserved_bytes = device_.reserved_bytes(),
                             .system_allocations = device_.system_allocations(),
                             .seconds = seconds_});
    metrics_.finish(options_, parts_.extra_config, result_);
    trace_.finish();
    return std::move(result_);
  }

  const TrainOptions& options_;
  const TrainerParts& parts_;
  data::Dataset dataset_;
  data::Sampler sampler_;
  MetricsFile metrics_;
  TraceFile trace_;
  Device device_;
  trace::StepTimeline timeline_;
  nn::Model model_;
  optim::AdamW optimizer_;
  optim::WarmupCosine schedule_;
  RankSeconds seconds_;
  TrainResult result_;
};

}  // namespace

TrainResult train(const TrainOptions& options, const TrainerParts& parts) {
  options.validate();
  return Trainer(options, parts).run();
}

}  // namespace ultra::train
