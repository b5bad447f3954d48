#include <cmath>
#include <utility>

#include "chapters/03_data_parallel/parameter_server/parameter_server.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/device/memory_ops.hpp"
#include "common/comm/engine/wait_any.hpp"
#include "common/ops/elementwise.hpp"
#include "common/optim/clip.hpp"
#include "common/train/run/divergence.hpp"

namespace ultra::data_parallel {
namespace {

/// contributions[0] = their sum, added in their order.
void add_up(const std::vector<Tensor>& contributions) {
  comm::combine_tensors(ReduceOp::kSum, contributions.front(), contributions);
}

class SyncServer : public ParameterServer {
 public:
  SyncServer(ServedWeights weights, const train::TrainOptions& options,
             trace::StepTimeline& timeline)
      : weights_(std::move(weights)),
        options_(options),
        timeline_(timeline),
        replicas_(checked_cast<std::size_t>(weights_.replicas())),
        gradients_(weights_.size()),
        sends_(weights_.size() * replicas_) {
    for (std::size_t slice = 0; slice < weights_.size(); ++slice) {
      for (std::size_t r = 0; r < replicas_; ++r) {
        gradients_[slice].push_back(weights_.buffer(slice));
      }
    }
  }

  // [region sync_server]
  double serve(const train::StepPlan& plan) override {
    timeline_.enter("collect gradients");
    const bool clips = options_.clip_norm > 0;
    std::vector<Work> pushes = receive_all(plan.step);
    std::vector<std::size_t> missing(weights_.size(), replicas_);
    std::vector<double> squares(weights_.size(), 0);
    for (std::size_t i = 0; i < pushes.size(); ++i) {
      const std::size_t slice = wait_any(pushes) / replicas_;
      if (--missing[slice] > 0) continue;
      add_up(gradients_[slice]);
      squares[slice] = ops::sum_of_squares(gradients_[slice].front());
      if (!clips) release(slice, plan, 1.0);
    }
    // In the order of the slices, so that it does not depend on who came first.
    double own = 0;
    for (const double square : squares) own += square;
    const double all = clips ? sum_over_servers(own) : own;
    train::expect_finite("gradient norm", std::sqrt(all), plan.step, options_);
    if (clips) {
      const double coefficient = optim::clip_coefficient(std::sqrt(all), options_.clip_norm);
      for (std::size_t slice = 0; slice < weights_.size(); ++slice) {
        release(slice, plan, coefficient);
      }
    }
    return own;
  }
  // [/region]

  void drain() override {
    for (Work& send : sends_) send.wait();
  }

 private:
  std::vector<Work> receive_all(std::size_t step) {
    std::vector<Work> pushes;
    for (std::size_t slice = 0; slice < weights_.size(); ++slice) {
      for (std::size_t r = 0; r < replicas_; ++r) {
        pushes.push_back(weights_.receive(slice, static_cast<int>(r), step, gradients_[slice][r]));
      }
    }
    return pushes;
  }

  // [region release]
  /// Updates a slice by the sum of its gradients, and lets all replicas have it.
  void release(std::size_t slice, const train::StepPlan& plan, double gradient_scale) {
    const std::span<Work> sends = std::span(sends_).subspan(slice * replicas_, replicas_);
    // The weights of the step before may still be read: they have been delivered, because all
    // replicas have used them, but the sends need not know it yet.
    for (Work& send : sends) send.wait();
    timeline_.enter("optimizer");
    weights_.update(slice, gradients_[slice].front(), plan.learning_rate, gradient_scale);
    timeline_.enter("collect gradients");
    for (std::size_t r = 0; r < replicas_; ++r) {
      sends[r] = weights_.send(slice, static_cast<int>(r), plan.step, weights_.value(slice));
    }
  }
  // [/region]

  double sum_over_servers(double own) const {
    const Tensor sum = Tensor::zeros(Device::cpu(), {1}, DType::kF64);
    sum.fill(own);
    weights_.server_group().labeled("squared gradient norm").all_reduce(sum).wait();
    return sum.to_vector().front();
  }

  ServedWeights weights_;
  const train::TrainOptions& options_;
  trace::StepTimeline& timeline_;
  std::size_t replicas_;
  std::vector<std::vector<Tensor>> gradients_;  // by slice and replica
  std::vector<Work> sends_;                     // by slice and replica: of the last weights
};

}  // namespace

std::unique_ptr<ParameterServer> sync_server(ServedWeights weights,
                                             const train::TrainOptions& options,
                                             trace::StepTimeline& timeline) {
  return std::make_unique<SyncServer>(std::move(weights), options, timeline);
}

}  // namespace ultra::data_parallel
