#include "chapters/03_data_parallel/parameter_server/server_training.hpp"

#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/parameter_server/parameter_server.hpp"
#include "chapters/03_data_parallel/parameter_server/push_pull.hpp"
#include "common/ops/elementwise.hpp"
#include "common/optim/clip.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::data_parallel {
namespace {

/// A rank's part of a step's figures; the parts of all ranks add up to them.
struct StepPart {
  double loss = 0;
  double squared_norm = 0;
};

// [region conclude]
/// Replaces the figures of the steps by the sums of all ranks' parts. Collective over the world.
void put_together(const Communicator& world, const Device& host, const std::vector<StepPart>& parts,
                  std::vector<train::StepMetrics>& steps) {
  const Tensor sums =
      Tensor::empty(host, {steps.size(), 2}, DType::kF64, MemoryCategory::kCommunication);
  const auto numbers = sums.span<double>();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    numbers[2 * i] = parts[i].loss;
    numbers[2 * i + 1] = parts[i].squared_norm;
  }
  world.labeled("losses and norms").all_reduce(sums).wait();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].loss = numbers[2 * i];
    steps[i].grad_norm = std::sqrt(numbers[2 * i + 1]);
  }
}
// [/region]

/// An asynchronous replica looks at all of its own gradient; a synchronous one leaves that to the
/// servers, which know the sum.
std::vector<train::OwnedPiece> pieces_of(const train::StatesScope& scope,
                                         const ServerWorld& servers) {
  std::vector<train::OwnedPiece> pieces;
  if (!servers.settings.asynchronous) return pieces;
  for (const nn::Parameter* parameter : scope.parameters) {
    pieces.push_back(
        {.parameter = parameter, .elements = {0, parameter->count()}, .is_owner = true});
  }
  return pieces;
}

/// What a replica keeps: weights and gradients, but nothing of an optimizer.
class ServedStates : public train::ModelStates {
 public:
  ServedStates(const train::StatesScope& scope, const ServerWorld& servers)
      : ModelStates(scope.data_group, pieces_of(scope, servers)), parameters_(scope.parameters) {
    const train::TrainOptions& options = scope.context.options;
    update_by(nullptr, std::make_unique<train::MasterWeights>(pieces(), options.formats()));
    const ServedModel served = share_model(servers, described());
    if (servers.world.rank() == 0) {
      std::vector<Tensor> values;
      for (const nn::Parameter* parameter : parameters_) values.push_back(parameter->value());
      send_first_weights(servers, served, values);
    }
    const bool clips = servers.settings.asynchronous && options.clip_norm > 0;
    sync_ = std::make_unique<PushPull>(*scope.chunks.front(), servers, served,
                                       clips ? Push::kLate : Push::kByPriority);
  }

  train::GradientExchange* exchange() override { return sync_.get(); }
  Tensor weights(std::size_t piece) override { return parameters_[piece]->value(); }
  Tensor gradient(std::size_t piece) override { return parameters_[piece]->grad(); }
  // [region update]
  /// The weights change at the servers. An asynchronous replica clips its own gradient before.
  void update(std::span<const optim::TensorUpdate> own, const train::StepRule& rule) override {
    const double coefficient = optim::clip_coefficient(rule.norm, rule.clip_norm);
    if (coefficient != 1.0) {
      for (const optim::TensorUpdate& update : own) ops::scale_into(update.grad, coefficient);
    }
    sync_->push();
  }
  // [/region]
  void drop_gradients() override {
    for (nn::Parameter* parameter : parameters_) parameter->drop_grad();
  }
  void conclude(train::RankMeter&) override { sync_->drain(); }

 private:
  [[nodiscard]] std::vector<ServedParameter> described() const {
    std::vector<ServedParameter> parameters;
    for (const nn::Parameter* parameter : parameters_) {
      parameters.push_back({.name = parameter->name(),
                            .count = parameter->count(),
                            .decays = train::decays(*parameter)});
    }
    return parameters;
  }

  std::vector<nn::Parameter*> parameters_;
  std::unique_ptr<PushPull> sync_;
};

// [region replica]
/// A trainer whose gradients go to the servers, and whose weights come from there.
class Replica : public train::Worker {
 public:
  Replica(const train::Setup& setup, const train::RunContext& context, const ServerWorld& servers)
      : context_(context),
        servers_(servers),
        worker_(train::make_trainer(setup, context, servers.group,
                                    [&](train::Plan& plan, train::StepConfig& step_config) {
                                      change(plan, step_config);
                                    })) {}

  train::StepOutcome step(const train::StepPlan& plan) override {
    const train::StepOutcome own = worker_->step(plan);
    const double part = servers_.settings.asynchronous ? 1.0 / servers_.replicas() : 1.0;
    parts_.push_back(
        {.loss = part * own.loss, .squared_norm = part * own.grad_norm * own.grad_norm});
    return own;
  }

  std::size_t skipped_steps() const override { return worker_->skipped_steps(); }
  std::size_t parameter_count() const override { return worker_->parameter_count(); }

  void conclude(std::vector<train::StepMetrics>& steps) override {
    worker_->conclude(steps);
    put_together(servers_.world, context_.device.host(), parts_, steps);
  }

 private:
  void change(train::Plan& plan, train::StepConfig& step_config) const {
    plan.in_step = plan.mesh.group({});  // alone
    if (servers_.settings.asynchronous) {
      for (train::MicroBatch& micro_batch : plan.micro_batches) {
        micro_batch.normalizer /= servers_.replicas();
      }
    }
    step_config.states.claim("parameter servers",
                             [servers = servers_](const train::StatesScope& scope) {
                               return std::make_unique<ServedStates>(scope, servers);
                             });
  }

  train::RunContext context_;
  ServerWorld servers_;
  std::unique_ptr<train::Worker> worker_;
  std::vector<StepPart> parts_;  // of each step
};
// [/region]

class Server : public train::Worker {
 public:
  Server(const train::RunContext& context, const ServerWorld& servers, const optim::Rule& rule)
      : context_(context), servers_(servers) {
    const ServedModel served = share_model(servers, {});
    parameter_count_ = served.total();
    ServedWeights weights(servers, served, context.device, context.options.dtype, rule);
    const ServerSettings& settings = servers.settings;
    server_ = settings.asynchronous
                  ? async_server(std::move(weights), settings.staleness, context.options,
                                 context.timeline)
                  : sync_server(std::move(weights), context.options, context.timeline);
  }

  train::StepOutcome step(const train::StepPlan& plan) override {
    parts_.push_back({.loss = 0, .squared_norm = server_->serve(plan)});
    return {.loss = 0, .grad_norm = std::sqrt(parts_.back().squared_norm)};
  }

  std::size_t parameter_count() const override { return parameter_count_; }

  void conclude(std::vector<train::StepMetrics>& steps) override {
    server_->drain();
    put_together(servers_.world, context_.device.host(), parts_, steps);
  }

 private:
  train::RunContext context_;
  ServerWorld servers_;
  std::size_t parameter_count_ = 0;
  std::unique_ptr<ParameterServer> server_;
  std::vector<StepPart> parts_;  // of each step
};

}  // namespace

std::unique_ptr<train::Worker> parameter_server_worker(const ServerWorld& servers,
                                                       const train::Setup& setup,
                                                       const train::RunContext& context,
                                                       const optim::Rule& rule) {
  if (servers.is_server()) return std::make_unique<Server>(context, servers, rule);
  return std::make_unique<Replica>(setup, context, servers);
}

}  // namespace ultra::data_parallel
