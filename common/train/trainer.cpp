#include "common/train/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "build_config.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/units.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/optim/clip.hpp"
#include "common/optim/schedule.hpp"
#include "common/trace/step_timeline.hpp"
#include "common/trace/trace_recorder.hpp"
#include "common/train/agree.hpp"
#include "common/train/comm_trace.hpp"
#include "common/train/progress.hpp"
#include "common/train/rank_clock.hpp"
#include "common/train/rank_meter.hpp"
#include "common/train/run_files.hpp"
#include "common/train/text_messages.hpp"

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

/// What a run needs from the machine, and what may be missing on one rank only.
struct RunSetup {
  RunSetup(const TrainOptions& options, int rank)
      : dataset(open_data(options)),
        sampler(dataset, options.model.max_seq_len, options.global_batch, options.seed),
        files(options, rank),
        device(Device::create(options.device)) {}

  data::Dataset dataset;
  data::Sampler sampler;
  RunFiles files;
  Device device;
};

std::unique_ptr<RunSetup> set_up(const TrainOptions& options, const Communicator& world) {
  std::unique_ptr<RunSetup> setup;
  agree(world, [&] { setup = std::make_unique<RunSetup>(options, world.rank()); });
  return setup;
}

std::unique_ptr<trace::TraceRecorder> timeline_of(const TrainOptions& options,
                                                  const Communicator& world) {
  if (options.trace.empty()) return nullptr;
  return std::make_unique<trace::TraceRecorder>(world.rank(), common_moment(world));
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, const TrainerParts& parts, const Communicator& world)
      : options_(options),
        parts_(parts),
        world_(world),
        setup_(set_up(options, world)),
        recorder_(timeline_of(options, world)),
        comm_trace_(world, recorder_.get()),
        timeline_(setup_->device, recorder_.get(), options.trace_steps),
        model_(options.model, setup_->device, options.dtype, options.seed, parts.factory),
        optimizer_({}, parts.adamw),
        schedule_{.peak = options.learning_rate,
                  .warmup_steps = options.warmup,
                  .total_steps = options.steps},
        meter_(world, setup_->device) {
    name_phases();
  }

  TrainResult run() {
    if (is_first_rank()) introduce();
    Progress progress(options_.steps, stdout);
    const auto start = Clock::now();
    for (std::size_t step = 1; step <= options_.steps; ++step) {
      throw_if_interrupted();
      const StepMetrics metrics = run_step(step);
      result_.steps.push_back(metrics);
      setup_->files.add_step(metrics);
      if (is_first_rank()) progress.show(step, metrics.loss, metrics.tokens_per_second);
    }
    result_.seconds = seconds_between(start, Clock::now());
    finish();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_first_rank() const { return world_.rank() == 0; }

  void introduce() const {
    const data::Dataset& dataset = setup_->dataset;
    const std::string ranks =
        world_.size() > 1 ? fmt::format(" by {} ranks", world_.size()) : std::string();
    fmt::print("{} parameters in {}, trained{} on {} ({} of text)\n",
               format_count(model_.parameter_count()), to_string(options_.dtype), ranks,
               dataset.source(), format_bytes(dataset.size()));
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
    if (step > options_.trace_steps) comm_trace_.stop();
    const auto begin = Clock::now();
    meter_.step_began();
    timeline_.begin_step(step);
    timeline_.enter("embedding");
    StepMetrics metrics{.step = step,
                        .loss = parts_.forward_backward(model_, setup_->sampler, step - 1),
                        .grad_norm = 0,
                        .learning_rate = schedule_.at(step),
                        .tokens_per_second = 0};
    check_finite("loss", metrics.loss, step);
    meter_.gradients_done();
    timeline_.enter("optimizer");
    metrics.grad_norm = optimize(metrics.learning_rate, step);
    timeline_.enter("gradients freed");
    model_.drop_grads();
    timeline_.end_step();
    meter_.step_ended();
    metrics.tokens_per_second =
        static_cast<double>(setup_->sampler.global_tokens()) / seconds_between(begin, Clock::now());
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

  void finish() {
    comm_trace_.stop();
    result_.parameters = model_.parameter_count();
    result_.ranks = exchange_summaries(world_, meter_.summary());
    std::vector<std::string> timelines;
    if (recorder_) timelines = gather_texts(world_, recorder_->events());
    agree(world_, [&] { setup_->files.finish(options_, parts_.extra_config, result_, timelines); });
  }

  const TrainOptions& options_;
  const TrainerParts& parts_;
  const Communicator& world_;
  std::unique_ptr<RunSetup> setup_;
  std::unique_ptr<trace::TraceRecorder> recorder_;  // null without --trace
  CommTrace comm_trace_;
  trace::StepTimeline timeline_;
  nn::Model model_;
  optim::AdamW optimizer_;
  optim::WarmupCosine schedule_;
  RankMeter meter_;
  TrainResult result_;
};

}  // namespace

TrainResult train(const TrainOptions& options, const TrainerParts& parts,
                  const Communicator& world) {
  options.validate();
  return Trainer(options, parts, world).run();
}

TrainResult train(const TrainOptions& options, const TrainerParts& parts) {
  options.validate();
  if (const int launched = launched_world_size().value_or(1); launched > 1) {
    throw ConfigError(fmt::format(
        "this trains on one rank, but mpirun started {} processes. Start it without mpirun.",
        launched));
  }
  TrainResult result;
  run_ranks(1, [&](Communicator& world) { result = train(options, parts, world); });
  return result;
}

}  // namespace ultra::train
