#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_reader.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_writer.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "common/base/errors.hpp"
#include "common/train/frame/agree.hpp"
#include "common/train/frame/text_messages.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;

class CheckpointedWorker : public train::Worker {
 public:
  CheckpointedWorker(std::unique_ptr<train::Worker> worker, const train::TrainerState& trainer,
                     const CheckpointOptions& options, checkpoint::FileLayer& files)
      : worker_(std::move(worker)),
        state_(trainer),
        context_(trainer.context),
        options_(options),
        files_(files),
        identity_(identity_of(trainer.context)) {
    if (!options_.resume.empty()) resume();
    if (options_.folder.empty()) return;
    expect_nothing_newer();
    writer_.emplace(files_, options_.folder, options_.keep, context_.world);
  }

  train::StepOutcome step(const train::StepPlan& plan) override { return worker_->step(plan); }

  std::vector<train::StepMetrics> history() override { return history_; }

  std::size_t parameter_count() const override { return worker_->parameter_count(); }

  // [region step_ended]
  void step_ended(const std::vector<train::StepMetrics>& steps) override {
    worker_->step_ended(steps);
    if (!writer_) return;
    writer_->poll();
    const std::size_t step = steps.size();
    const bool due = options_.save_every > 0 && step % options_.save_every == 0;
    if (due || step == context_.options.steps) save(steps);
  }
  // [/region]

  void conclude(std::vector<train::StepMetrics>& steps) override {
    worker_->conclude(steps);
    if (writer_) writer_->finish();
  }

 private:
  [[nodiscard]] bool is_first_rank() const { return context_.world.rank() == 0; }

  void say(const std::string& text) const {
    if (!is_first_rank()) return;
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  void resume() {
    // Rank 0 looks, so that all ranks load the same checkpoint.
    std::string found;
    train::agree(context_.world, [&] {
      if (is_first_rank()) found = find().value_or(fs::path()).string();
    });
    found = train::broadcast_text(context_.world, found);
    if (found.empty()) {
      return say(fmt::format("There is no checkpoint in '{}' yet: the training begins at step 1.",
                             options_.resume));
    }
    const TrainingRecord record = load_checkpoint(files_, found, identity_, state_, context_.world);
    history_ = record.steps;
    const std::size_t steps = context_.options.steps;
    if (history_.size() > steps) {
      throw ConfigError(
          fmt::format("checkpoint '{}' is of step {}, and --steps {} ends before. Give "
                      "--steps a larger number.",
                      found, history_.size(), steps));
    }
    say(fmt::format("Goes on from '{}': {} of {} steps have been made.", found, history_.size(),
                    steps));
  }

  /// A folder that is only to be made is as good as an empty one.
  [[nodiscard]] std::optional<fs::path> find() const {
    const bool own = fs::path(options_.resume + "/").lexically_normal() ==
                     fs::path(options_.folder + "/").lexically_normal();
    if (own && !files_.exists(options_.resume)) return {};
    return find_checkpoint(files_, options_.resume);
  }

  void expect_nothing_newer() const {
    train::agree(context_.world, [&] {
      if (!is_first_rank()) return;
      const CheckpointFolder folder(files_, options_.folder);
      const std::vector<std::size_t> steps = folder.steps();
      if (steps.empty() || steps.back() <= history_.size()) return;
      throw ConfigError(
          fmt::format("--checkpoint {0} holds a checkpoint of step {1} already, and this training "
                      "begins behind "
                      "step {2}. Add --resume {0} to go on from there, or give another folder.",
                      options_.folder, steps.back(), history_.size()));
    });
  }

  void save(const std::vector<train::StepMetrics>& steps) {
    writer_->begin(state_, {.identity = identity_,
                            .steps = steps,
                            .optimizer_steps = state_.optimizer_steps(),
                            .writers = context_.world.size()});
  }

  std::unique_ptr<train::Worker> worker_;
  TrainingState state_;
  train::RunContext context_;
  CheckpointOptions options_;
  checkpoint::FileLayer& files_;
  TrainingIdentity identity_;  // hashes the whole text: once
  std::vector<train::StepMetrics> history_;
  std::optional<CheckpointWriter> writer_;
};

}  // namespace

std::unique_ptr<train::Worker> with_checkpoints(std::unique_ptr<train::Worker> worker,
                                                const train::TrainerState& trainer,
                                                const CheckpointOptions& options,
                                                checkpoint::FileLayer& files) {
  return std::make_unique<CheckpointedWorker>(std::move(worker), trainer, options, files);
}

}  // namespace ultra::zero
