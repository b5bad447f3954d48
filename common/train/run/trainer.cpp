#include "common/train/run/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/optim/schedule.hpp"
#include "common/trace/step_timeline.hpp"
#include "common/trace/trace_recorder.hpp"
#include "common/train/report/progress.hpp"
#include "common/train/report/rank_clock.hpp"
#include "common/train/report/rank_meter.hpp"
#include "common/train/run/agree.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

data::Sampler sampler_of(const TrainOptions& options, data::Dataset dataset) {
  return {std::move(dataset), options.model.max_seq_len, options.global_batch, options.seed};
}

/// A validation that draws every sequence of its text once, on average, has seen it; the default may
/// always be drawn.
void expect_enough_text(const TrainOptions& options, const data::Sampler& validation) {
  const std::size_t sequences = validation.dataset().size() - validation.seq_len();
  const std::size_t most =
      std::max(TrainOptions().val_batches, ceil_div(sequences, options.global_batch));
  if (options.val_batches <= most) return;
  throw ConfigError(fmt::format(
      "--val-batches {} draws more than all of --val-data {}: it has {} different sequences of {} "
      "tokens (--seq), {} in a batch (--global-batch). Give --val-batches {} or less.",
      options.val_batches, in_quotes(validation.dataset().source()), sequences,
      validation.seq_len(), options.global_batch, most));
}

MatmulLibrary library_of(const TrainOptions& options) {
  if (options.matmul.empty()) return MatmulLibrary::kAny;
  if (options.matmul == "tree") return MatmulLibrary::kTrees;
  return options.matmul == "vendor" ? MatmulLibrary::kVendor : MatmulLibrary::kOurs;
}

/// What a run needs from the machine, and what may be missing on one rank only.
struct RunSetup {
  RunSetup(const TrainOptions& options, data::SharedDataset& text, int rank, int ranks)
      : sampler(sampler_of(options, text.open(options.data_file()))),
        files(options, rank),
        device(Device::create(options.device, rank, library_of(options))) {
    device.set_memory_limit(options.device_memory);
    if (has_streams(device.kind()) && ranks > 1) {
      device.streams().leave_multiprocessors(gpu::kMultiprocessorsOfCommunication);
    }
    if (options.val_data.empty()) return;
    validation.emplace(sampler_of(options, text.open(options.val_file())));
    expect_enough_text(options, *validation);
  }

  data::Sampler sampler;
  std::optional<data::Sampler> validation;
  RunFiles files;
  Device device;
};

std::unique_ptr<RunSetup> set_up(const TrainOptions& options, data::SharedDataset& text,
                                 const Communicator& world) {
  std::unique_ptr<RunSetup> setup;
  agree(world,
        [&] { setup = std::make_unique<RunSetup>(options, text, world.rank(), world.size()); });
  expect_same_text(world, setup->sampler.dataset());
  if (setup->validation) expect_same_text(world, setup->validation->dataset());
  return setup;
}

std::unique_ptr<trace::TraceRecorder> timeline_of(const TrainOptions& options,
                                                  const Communicator& world) {
  if (options.trace.empty()) return nullptr;
  return std::make_unique<trace::TraceRecorder>(world.rank(), common_moment(world));
}

/// The frame of a run, on one rank.
class Trainer {
 public:
  Trainer(const TrainOptions& options, data::SharedDataset& text, const MakeWorker& make_worker,
          const ExtraConfig& extra_config, const Communicator& world)
      : options_(options),
        extra_config_(extra_config),
        world_(world),
        setup_(set_up(options, text, world)),
        recorder_(timeline_of(options, world)),
        comm_trace_(world, recorder_.get()),
        timeline_(setup_->device, recorder_.get(), options.trace_steps),
        schedule_(options.schedule()),
        meter_(world, setup_->device),
        worker_(make_worker({.options = options_,
                             .world = world_,
                             .sampler = setup_->sampler,
                             .device = setup_->device,
                             .timeline = timeline_,
                             .meter = meter_})) {}

  TrainResult run() {
    result_.parameters = worker_->parameter_count();
    result_.steps = worker_->history();
    result_.earlier_steps = result_.steps.size();
    if (is_first_rank()) introduce();
    const auto start = Clock::now();
    meter_.run_began();
    make_steps();
    worker_->conclude(result_.steps);
    meter_.run_ended();
    result_.seconds = seconds_between(start, Clock::now()) - validation_seconds_;
    finish();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_first_rank() const { return world_.rank() == 0; }

  void introduce() const {
    const data::Dataset& dataset = setup_->sampler.dataset();
    const std::string ranks =
        world_.size() > 1 ? fmt::format(" by {} ranks", world_.size()) : std::string();
    fmt::print("{} parameters in {}, trained{} on {} ({})\n", format_count(result_.parameters),
               to_string(options_.formats().parameters), ranks, dataset.source(),
               dataset.described_size());
    std::fflush(stdout);
  }

  void make_steps() {
    Progress progress(options_.steps, stdout, result_.earlier_steps);
    for (std::size_t step = result_.earlier_steps + 1; step <= options_.steps; ++step) {
      throw_if_interrupted();
      const StepMetrics metrics = make_step(plan_of(step));
      result_.steps.push_back(metrics);
      if (is_first_rank()) {
        progress.show(step, metrics.loss, metrics.tokens_per_second, metrics.next_loss);
      }
      if (options_.validates_after(step)) validate(progress);
      worker_->step_ended(result_.steps);
    }
  }

  /// A step that was skipped has not used its learning rate: the next one does.
  [[nodiscard]] StepPlan plan_of(std::size_t step) const {
    return {.step = step, .learning_rate = schedule_.at(step - worker_->skipped_steps())};
  }

  StepMetrics make_step(const StepPlan& plan) {
    if (plan.step > result_.earlier_steps + options_.trace_steps) comm_trace_.stop();
    const auto begin = Clock::now();
    meter_.step_began();
    timeline_.begin_step(plan.step);
    const StepOutcome outcome = worker_->step(plan);
    timeline_.end_step();
    meter_.step_ended();
    const double seconds = seconds_between(begin, Clock::now());
    return {.step = plan.step,
            .loss = outcome.loss,
            .grad_norm = outcome.grad_norm,
            .learning_rate = plan.learning_rate,
            .tokens_per_second = static_cast<double>(setup_->sampler.global_tokens()) / seconds,
            .figures = meter_.take_figures(),
            .next_loss = outcome.next_loss};
  }

  void validate(Progress& progress) {
    const auto begin = Clock::now();
    meter_.pause();
    timeline_.enter("validation");
    StepMetrics& last = result_.steps.back();
    last.validation_loss = worker_->validate(*setup_->validation, options_.val_batches);
    timeline_.leave();
    meter_.resume();
    validation_seconds_ += seconds_between(begin, Clock::now());
    if (is_first_rank()) progress.show_validation(last.step, *last.validation_loss);
  }

  void finish() {
    comm_trace_.stop();
    timeline_.stop();
    result_.ranks = exchange_summaries(world_, meter_.summary());
    std::vector<std::string> timelines;
    if (recorder_) timelines = gather_texts(world_, recorder_->events());
    agree(world_, [&] { setup_->files.finish(options_, extra_config_, result_, timelines); });
  }

  const TrainOptions& options_;
  const ExtraConfig& extra_config_;
  const Communicator& world_;
  std::unique_ptr<RunSetup> setup_;
  std::unique_ptr<trace::TraceRecorder> recorder_;  // null without --trace
  CommTrace comm_trace_;
  trace::StepTimeline timeline_;
  optim::LearningRateSchedule schedule_;
  RankMeter meter_;
  std::unique_ptr<Worker> worker_;
  TrainResult result_;
  double validation_seconds_ = 0;
};

std::string name_of(const OperationInfo& info) {
  std::string name = fmt::format("{} {}", to_string(info.kind), info.communicator);
  return info.label.empty() ? name : fmt::format("{}: {}", name, info.label);
}

}  // namespace

CommTrace::CommTrace(Communicator world, trace::TraceRecorder* recorder)
    : world_(std::move(world)), recorder_(recorder) {
  if (recorder_ != nullptr) world_.set_observer(this);
}

void CommTrace::stop() {
  if (recorder_ == nullptr) return;
  world_.set_observer(nullptr);
  recorder_ = nullptr;
}

void CommTrace::operation_ended(const OperationInfo& info, std::size_t sent_bytes,
                                Clock::time_point begin, Clock::time_point end) {
  // Operations are told in the order of their ends, so a track is free when its last has ended.
  auto free = std::find_if(track_ends_.begin(), track_ends_.end(),
                           [&](Clock::time_point track_end) { return track_end <= begin; });
  if (free == track_ends_.end()) free = track_ends_.insert(free, end);
  *free = end;
  const auto number = free - track_ends_.begin() + 1;
  recorder_->add_span(number == 1 ? "communication" : fmt::format("communication {}", number),
                      name_of(info), recorder_->at(begin), recorder_->at(end),
                      {{"elements", static_cast<double>(info.count)},
                       {"sent_bytes", static_cast<double>(sent_bytes)}});
}

void CommTrace::waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) {
  recorder_->add_span("waiting", name_of(info), recorder_->at(begin), recorder_->at(end));
}

RunFiles::RunFiles(const TrainOptions& options, int rank)
    : metrics_(rank == 0 ? options.metrics : std::string()) {
  if (rank == 0 && !options.trace.empty()) trace_.emplace(options.trace, "trace file (--trace)");
}

void RunFiles::finish(const TrainOptions& options, const ExtraConfig& extra,
                      const TrainResult& result, std::span<const std::string> timelines) {
  metrics_.finish(options, extra, result);
  if (!trace_) return;
  trace_->write(trace::join_timelines(timelines));
  trace_->commit();
}

TrainResult train(const TrainOptions& options, data::SharedDataset& text,
                  const MakeWorker& make_worker, const ExtraConfig& extra_config,
                  const Communicator& world) {
  options.validate();
  return Trainer(options, text, make_worker, extra_config, world).run();
}

void expect_one_process() {
  const int launched = launched_world_size().value_or(1);
  if (launched == 1) return;
  throw ConfigError(fmt::format(
      "this trains on one rank, but mpirun started {} processes. Start it without mpirun.",
      launched));
}

}  // namespace ultra::train
