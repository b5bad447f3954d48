#include "chapters/03_data_parallel/parameter_server/server_training.hpp"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/03_data_parallel/parameter_server/parameter_server.hpp"
#include "chapters/03_data_parallel/parameter_server/push_pull.hpp"
#include "common/train/divergence.hpp"

namespace ultra::data_parallel {
namespace {

/// A rank's part of a step's figures; the parts of all ranks add up to them.
struct StepPart {
  double loss = 0;
  double squared_norm = 0;
};

// [region conclude]
/// Replaces the figures of the steps by the sums of all ranks' parts. Collective over the world.
void put_together(const Communicator& world, const Device& device,
                  const std::vector<StepPart>& parts, std::vector<train::StepMetrics>& steps) {
  const Tensor sums =
      Tensor::empty(device, {steps.size(), 2}, DType::kF64, MemoryCategory::kCommunication);
  const auto numbers = sums.span<double>();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    numbers[2 * i] = parts[i].loss;
    numbers[2 * i + 1] = parts[i].squared_norm;
  }
  world.labeled("losses and norms").all_reduce(sums);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].loss = numbers[2 * i];
    steps[i].grad_norm = std::sqrt(numbers[2 * i + 1]);
  }
}
// [/region]

class Replica : public train::Worker {
 public:
  Replica(const train::RunContext& context, const ServerWorld& servers, const ServerParts& parts)
      : context_(context), servers_(servers), worker_(context, trainer_parts(parts)) {
    nn::Model& model = worker_.model();
    const ServedModel served = share_model(servers, parameters_of(model));
    if (servers.world.rank() == 0) {
      std::vector<Tensor> values;
      for (const nn::Parameter* parameter : model.parameters()) {
        values.push_back(parameter->value());
      }
      send_first_weights(servers, served, values);
    }
    sync_ = std::make_unique<PushPull>(model, servers, served, context.options.clip_norm);
  }

  train::StepOutcome step(const train::StepPlan& plan) override {
    const train::StepOutcome own = worker_.step(plan);
    const double replicas = servers_.replicas();
    parts_.push_back(
        {.loss = own.loss / replicas, .squared_norm = own.grad_norm * own.grad_norm / replicas});
    return own;
  }

  std::size_t parameter_count() const override { return worker_.parameter_count(); }

  void conclude(std::vector<train::StepMetrics>& steps) override {
    sync_->drain();
    put_together(servers_.world, context_.device, parts_, steps);
  }

 private:
  static std::vector<ServedParameter> parameters_of(const nn::Model& model) {
    std::vector<ServedParameter> parameters;
    for (const nn::Parameter* parameter : model.parameters()) {
      parameters.push_back({.name = parameter->name(),
                            .count = parameter->count(),
                            .decays = train::decays(*parameter)});
    }
    return parameters;
  }

  // [region replica]
  train::TrainerParts trainer_parts(const ServerParts& parts) {
    train::ForwardBackward forward_backward = [this, micro_batch = parts.micro_batch](
                                                  nn::Model& model, const data::Sampler& global,
                                                  std::size_t step) {
      return pass_own_share(model, global, step, micro_batch, servers_.group, *sync_);
    };
    if (parts.change) forward_backward = parts.change(std::move(forward_backward));
    // The weights change at the servers; what is left is to look at the gradient.
    train::Update update = [this](nn::Model&, const train::StepPlan& plan) {
      const double norm = sync_->gradient_norm();
      train::expect_finite("gradient norm", norm, plan.step, context_.options);
      return norm;
    };
    return {.factory = parts.factory,
            .forward_backward = std::move(forward_backward),
            .update = std::move(update),
            .extra_config = {}};
  }
  // [/region]

  train::RunContext context_;
  ServerWorld servers_;
  train::ModelWorker worker_;
  std::unique_ptr<PushPull> sync_;
  std::vector<StepPart> parts_;  // of each step
};

class Server : public train::Worker {
 public:
  Server(const train::RunContext& context, const ServerWorld& servers, const ServerParts& parts)
      : context_(context), servers_(servers) {
    const ServedModel served = share_model(servers, {});
    parameter_count_ = served.total();
    ServedWeights weights(servers, served, context.device, context.options.dtype, parts.adamw);
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
    put_together(servers_.world, context_.device, parts_, steps);
  }

 private:
  train::RunContext context_;
  ServerWorld servers_;
  std::size_t parameter_count_ = 0;
  std::unique_ptr<ParameterServer> server_;
  std::vector<StepPart> parts_;  // of each step
};

}  // namespace

train::MakeWorker parameter_server_worker(const ServerWorld& servers, const ServerParts& parts) {
  return [servers, parts](const train::RunContext& context) -> std::unique_ptr<train::Worker> {
    if (servers.is_server()) return std::make_unique<Server>(context, servers, parts);
    return std::make_unique<Replica>(context, servers, parts);
  };
}

}  // namespace ultra::data_parallel
