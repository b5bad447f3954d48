#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"

#include <fmt/format.h>

#include <chrono>
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
#include "common/base/same_file.hpp"
#include "common/train/run/agree.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;

/// How long a run waits for the one before to end. When mpirun is killed its ranks notice after
/// some three seconds, and train and save until then.
constexpr auto kPatience = std::chrono::seconds(10);

class CheckpointedWorker : public train::Worker {
 public:
  CheckpointedWorker(std::unique_ptr<train::Worker> worker, const train::TrainerState& trainer,
                     const train::Identity& identity, const CheckpointOptions& options,
                     checkpoint::FileLayer& files)
      : worker_(std::move(worker)),
        state_(trainer),
        context_(trainer.context),
        options_(options),
        files_(files),
        identity_(identity_of(trainer.context, identity)),
        settings_(settings_of(trainer.context.options)) {
    const std::string found = open_folders();
    if (!options_.resume.empty()) resume(found);
    if (options_.folder.empty()) return;
    expect_nothing_newer();
    collect_companions(found);
    writer_.emplace(files_, options_.folder, options_.keep, context_.world);
  }

  train::StepOutcome step(const train::StepPlan& plan) override { return worker_->step(plan); }

  double validate(const data::Sampler& sampler, std::size_t batches) override {
    return worker_->validate(sampler, batches);
  }

  std::vector<train::StepMetrics> history() override { return history_; }

  std::size_t skipped_steps() const override { return worker_->skipped_steps(); }

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

  // [region open_folders]
  /// Takes the folder for new checkpoints, and looks for the one to go on from; empty for none.
  /// Rank 0 does, so that all ranks load the same one.
  std::string open_folders() {
    std::string found;
    train::agree(context_.world, [&] {
      if (!is_first_rank()) return;
      // Another run's folder is only read, and may be written to meanwhile. One's own must not
      // change from the look into it on.
      if (!resumes_own_folder()) found = find();
      if (!options_.folder.empty()) take_folder();
      if (resumes_own_folder()) found = find();
    });
    return train::broadcast_text(context_.world, found);
  }
  // [/region]

  /// Nothing but rank 0 gives checkpoints their names or removes any: its lock is the run's.
  void take_folder() {
    CheckpointFolder(files_, options_.folder).make();
    lock_.emplace(options_.folder, kPatience, [this](const std::string& text) { say(text); });
  }

  [[nodiscard]] bool resumes_own_folder() const {
    if (options_.resume.empty() || options_.folder.empty()) return false;
    return same_file(options_.resume, options_.folder);
  }

  [[nodiscard]] std::string find() const {
    if (options_.resume.empty()) return {};
    return find_checkpoint(files_, options_.resume).value_or(fs::path()).string();
  }

  /// What came with the weights goes with them.
  void collect_companions(const std::string& found) {
    train::agree(context_.world, [&] {
      const std::string& from = found.empty() ? context_.options.init : found;
      if (is_first_rank() && !from.empty()) companions_ = companions_of(files_, from);
    });
  }

  void resume(const std::string& found) {
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
    for (const std::string& change : settings_.changes_since(record.settings)) say(change);
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
    writer_->begin(state_,
                   {.identity = identity_,
                    .settings = settings_,
                    .steps = steps,
                    .optimizer_steps = state_.optimizer_steps(),
                    .numbers = state_.numbers(),
                    .writers = context_.world.size()},
                   companions_);
  }

  std::unique_ptr<train::Worker> worker_;
  TrainingState state_;
  train::RunContext context_;
  CheckpointOptions options_;
  checkpoint::FileLayer& files_;
  TrainingIdentity identity_;  // hashes the whole text: once
  TrainingSettings settings_;
  std::vector<train::StepMetrics> history_;
  Companions companions_;           // rank 0's
  std::optional<FolderLock> lock_;  // rank 0's
  std::optional<CheckpointWriter> writer_;
};

}  // namespace

std::unique_ptr<train::Worker> with_checkpoints(std::unique_ptr<train::Worker> worker,
                                                const train::TrainerState& trainer,
                                                const train::Identity& identity,
                                                const CheckpointOptions& options,
                                                checkpoint::FileLayer& files) {
  return std::make_unique<CheckpointedWorker>(std::move(worker), trainer, identity, options, files);
}

}  // namespace ultra::zero
