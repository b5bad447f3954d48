#include "tests/support/training/plain_training.hpp"

#include "common/base/numeric.hpp"
#include "common/checkpoint/safetensors/element_runs.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::test {
namespace {

Range equal_share(std::size_t global_batch, const Communicator& replicas) {
  const std::size_t size = global_batch / checked_cast<std::size_t>(replicas.size());
  const std::size_t begin = checked_cast<std::size_t>(replicas.rank()) * size;
  return {begin, begin + size};
}

class SumAfterAllPasses : public train::GradientExchange {
 public:
  explicit SumAfterAllPasses(const train::StatesScope& scope)
      : parameters_(scope.parameters), ranks_(scope.data) {}

  void finish() override {
    for (const nn::Parameter* parameter : parameters_) ranks_.all_reduce(parameter->grad()).wait();
  }

 private:
  std::vector<nn::Parameter*> parameters_;
  Communicator ranks_;
};

class PlainTraining : public train::Technique {
 public:
  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    step_config.share.offer(equal_share);
    step_config.cut.offer(cut_evenly);
    step_config.schedule.offer(one_after_the_other);
    step_config.exchange.offer(
        [](const train::StatesScope& scope) { return std::make_unique<SumAfterAllPasses>(scope); });
  }
};

class Putting : public train::Technique {
 public:
  explicit Putting(Put put) : put_(std::move(put)) {}
  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    if (put_) put_(step_config);
  }

 private:
  Put put_;
};

class Watcher : public train::StepObserver {
 public:
  using Fn = std::function<void(const train::StepPlan&, const train::ModelScope&)>;
  Watcher(train::ModelScope scope, Fn fn) : scope_(std::move(scope)), fn_(std::move(fn)) {}
  void step_begins(const train::StepPlan& plan) override { fn_(plan, scope_); }

 private:
  train::ModelScope scope_;
  Fn fn_;
};

/// A piece of this rank's at the end: what does not outlive the training.
struct KeptPiece {
  std::size_t parameter;  // of the whole model
  bool saves;
  std::vector<checkpoint::ElementRun> runs;
  std::vector<double> values;
};

struct Kept {
  std::vector<nn::NamedShape> parameters;
  std::vector<KeptPiece> pieces;
};

KeptPiece keep(train::ModelStates& states, std::size_t number,
               const std::vector<nn::NamedShape>& whole) {
  const train::OwnedPiece& piece = states.pieces()[number];
  const nn::Parameter& parameter = *piece.parameter;
  const auto found = std::ranges::find(whole, parameter.name(), &nn::NamedShape::name);
  if (found == whole.end()) throw std::runtime_error("not of the model: " + parameter.name());
  const Tensor values =
      Tensor::empty(Device::cpu(), {piece.elements.size()}, accumulation_dtype(parameter.dtype()));
  states.read_weights(number, values);
  const std::size_t own = parameter.own_count();  // padding stands behind
  const Range elements{std::min(piece.elements.begin, own), std::min(piece.elements.end, own)};
  return {.parameter = static_cast<std::size_t>(found - whole.begin()),
          .saves = states.saves(number),
          .runs = checkpoint::element_runs(parameter.global_shape(), parameter.shard(), elements),
          .values = values.to_vector()};
}

/// Reads the weights when the training ends; they travel later, as no traffic of the training.
class Keeper : public train::Worker {
 public:
  Keeper(std::unique_ptr<train::Worker> worker, const train::TrainerState& trainer, Kept& kept)
      : worker_(std::move(worker)), trainer_(trainer), kept_(kept) {}

  train::StepOutcome step(const train::StepPlan& plan) override { return worker_->step(plan); }
  double validate(const data::Sampler& sampler, std::size_t batches) override {
    return worker_->validate(sampler, batches);
  }
  std::vector<train::StepMetrics> history() override { return worker_->history(); }
  void step_ended(const std::vector<train::StepMetrics>& steps) override {
    worker_->step_ended(steps);
  }
  std::size_t skipped_steps() const override { return worker_->skipped_steps(); }
  std::size_t parameter_count() const override { return worker_->parameter_count(); }
  void conclude(std::vector<train::StepMetrics>& steps) override {
    worker_->conclude(steps);
    kept_.parameters = trainer_.parameters;
    for (const auto& states : trainer_.states) {
      for (std::size_t i = 0; i < states->pieces().size(); ++i) {
        kept_.pieces.push_back(keep(*states, i, kept_.parameters));
      }
    }
  }

 private:
  std::unique_ptr<train::Worker> worker_;
  train::TrainerState trainer_;
  Kept& kept_;
};

class Keeping : public train::Technique {
 public:
  explicit Keeping(Kept& kept) : kept_(kept) {}
  std::unique_ptr<train::Worker> wrap_worker(std::unique_ptr<train::Worker> worker,
                                             const train::TrainerState& trainer,
                                             const train::Setup&) const override {
    return std::make_unique<Keeper>(std::move(worker), trainer, kept_);
  }

 private:
  Kept& kept_;
};

/// Exact where the others have zeros.
std::vector<double> summed(const std::vector<double>& values, const Communicator& world) {
  const Tensor sum = Tensor::from<double>(Device::cpu(), {values.size()}, values).clone();
  world.all_reduce(sum).wait();
  return sum.to_vector();
}

void put_together(const Kept& kept, const Communicator& world, RankRun& run) {
  std::vector<std::size_t> begins;  // of each parameter, one after the other
  std::size_t count = 0;
  for (const nn::NamedShape& parameter : kept.parameters) {
    begins.push_back(count);
    count += parameter.shape.numel();
  }
  std::vector<double> all(2 * count, 0.0);  // the weights, and how often each is written
  for (const KeptPiece& piece : kept.pieces) {
    run.own.push_back(piece.values);
    if (!piece.saves) continue;
    for (const checkpoint::ElementRun& elements : piece.runs) {
      for (std::size_t i = 0; i < elements.count; ++i) {
        const std::size_t at = begins[piece.parameter] + elements.global + i;
        all[at] += piece.values[elements.local + i];
        all[count + at] += 1;
      }
    }
  }
  all = summed(all, world);
  for (std::size_t p = 0; p < begins.size(); ++p) {
    const auto part = std::span(all).subspan(begins[p], kept.parameters[p].shape.numel());
    run.weights.emplace_back(part.begin(), part.end());
  }
  const auto written = std::span(all).subspan(count);
  run.written.assign(written.begin(), written.end());
}

}  // namespace

train::StepSchedule one_after_the_other(std::size_t micro_batches) {
  train::StepSchedule schedule;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    schedule.push_back({.kind = train::ActionKind::kForward, .micro_batch = i});
    schedule.push_back({.kind = train::ActionKind::kBackward, .micro_batch = i});
  }
  return schedule;
}

std::vector<train::MicroBatch> cut_evenly(const train::LocalBatch& share, std::size_t micro_batch) {
  std::vector<train::MicroBatch> cut;
  for (std::size_t i = 0; i < share.sequences.size(); i += micro_batch) {
    cut.push_back({.sequences = {i, std::min(i + micro_batch, share.sequences.size())},
                   .normalizer = share.global_tokens});
  }
  return cut;
}

std::unique_ptr<train::Technique> plain_training() { return std::make_unique<PlainTraining>(); }

Put before_each_step(std::function<void(const train::StepPlan&, const train::ModelScope&)> fn) {
  return [fn = std::move(fn)](train::StepConfig& step_config) {
    step_config.observers.emplace_back(
        [fn](const train::ModelScope& scope) { return std::make_unique<Watcher>(scope, fn); });
  };
}

std::unique_ptr<train::Technique> putting(Put put) {
  return std::make_unique<Putting>(std::move(put));
}

train::Setup setup_of(const train::TrainOptions& options, int ranks, train::Techniques techniques,
                      const std::string& flags) {
  train::Setup setup;
  setup.train = options;
  setup.comm.ranks = checked_cast<std::size_t>(ranks);
  setup.comm.launched = {};
  setup.techniques = std::move(techniques);
  parse_flags(
      [&](CLI::App& app) {
        for (const auto& technique : setup.techniques) technique->add_flags(app, setup);
      },
      words_of(flags));
  for (const auto& technique : setup.techniques) technique->validate(setup);
  for (const auto& technique : setup.techniques) technique->check_ranks(setup);
  return setup;
}

RankRun run_of(train::Setup setup, const Communicator& world) {
  Kept kept;
  setup.techniques.push_back(std::make_unique<Keeping>(kept));
  RankRun run;
  run.result = train::train_with(setup, world);
  put_together(kept, world, run);
  return run;
}

train::TrainResult train_quietly(const train::TrainOptions& options, const Put& put) {
  train::TrainResult result;
  static_cast<void>(printed_by([&] {
    run_ranks(1, [&](Communicator& world) {
      result = train::train_with(
          setup_of(options, 1, train::list_of(plain_training(), putting(put))), world);
    });
  }));
  return result;
}

}  // namespace ultra::test
