#include <algorithm>
#include <utility>

#include "chapters/03_data_parallel/parameter_server/parameter_server.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/engine/wait_any.hpp"

namespace ultra::data_parallel {
namespace {

/// A replica, as the server sees it.
struct Client {
  std::size_t missing = 0;     // slices of the step under way that it has not pushed
  std::vector<Tensor> reply;   // by slice: the weights that it was sent last
  std::vector<Work> delivery;  // by slice
};

class AsyncServer : public ParameterServer {
 public:
  AsyncServer(ServedWeights weights, std::size_t staleness, const train::TrainOptions& options,
              trace::StepTimeline& timeline)
      : weights_(std::move(weights)),
        options_(options),
        timeline_(timeline),
        clock_(weights_.replicas(), staleness, options.steps),
        clients_(checked_cast<std::size_t>(weights_.replicas())) {
    for (std::size_t slice = 0; slice < weights_.size(); ++slice) {
      for (std::size_t r = 0; r < clients_.size(); ++r) {
        gradients_.push_back(weights_.buffer(slice));
        clients_[r].reply.push_back(weights_.buffer(slice));
        pushes_.push_back(weights_.receive(slice, static_cast<int>(r), 1, gradients_.back()));
        step_of_.push_back(1);
      }
    }
    for (Client& client : clients_) {
      client.missing = weights_.size();
      client.delivery.resize(weights_.size());
    }
  }

  // [region async_server]
  double serve(const train::StepPlan& plan) override {
    timeline_.enter("collect gradients");
    // A server without slices has nobody to wait for.
    while (!pushes_.empty() && clock_.slowest() < plan.step) take(wait_any(pushes_));
    return 0;
  }
  // [/region]

  void drain() override {
    for (Client& client : clients_) {
      for (Work& send : client.delivery) send.wait();
    }
  }

 private:
  // [region take]
  /// A slice of a replica's gradient has come.
  void take(std::size_t push) {
    const std::size_t slice = push / clients_.size();
    const std::size_t r = push % clients_.size();
    const std::size_t step = step_of_[push]++;
    timeline_.enter("optimizer");
    weights_.update(slice, gradients_[push], learning_rate(step), 1.0);
    timeline_.enter("collect gradients");
    if (step < options_.steps) {
      pushes_[push] = weights_.receive(slice, static_cast<int>(r), step + 1, gradients_[push]);
    }
    if (--clients_[r].missing > 0) return;
    clients_[r].missing = weights_.size();
    for (const int released : clock_.complete(static_cast<int>(r))) reply(released);
  }
  // [/region]

  [[nodiscard]] double learning_rate(std::size_t step) const {
    return options_.schedule().at(step) / static_cast<double>(clients_.size());
  }

  /// Sends a replica the weights as they are now. A copy: others change them meanwhile.
  void reply(int replica) {
    Client& client = clients_[static_cast<std::size_t>(replica)];
    const std::size_t step = clock_.completed(replica);
    for (std::size_t slice = 0; slice < weights_.size(); ++slice) {
      client.delivery[slice].wait();  // used by the replica, but the send need not know it yet
      client.reply[slice].copy_from(weights_.value(slice));
      client.delivery[slice] = weights_.send(slice, replica, step, client.reply[slice]);
    }
  }

  ServedWeights weights_;
  const train::TrainOptions& options_;
  trace::StepTimeline& timeline_;
  StaleClock clock_;
  std::vector<Client> clients_;
  std::vector<Tensor> gradients_;     // by slice and replica
  std::vector<Work> pushes_;          // by slice and replica
  std::vector<std::size_t> step_of_;  // by slice and replica: what the push under way belongs to
};

}  // namespace

StaleClock::StaleClock(int replicas, std::size_t staleness, std::size_t steps)
    : staleness_(staleness),
      steps_(steps),
      completed_(checked_cast<std::size_t>(replicas), 0),
      waits_(completed_.size(), false) {
  ensure(!completed_.empty(), "a clock of one replica at least");
}

bool StaleClock::may_go_on(std::size_t completed) const {
  const std::size_t slowest = this->slowest();
  return completed < steps_ ? completed - slowest <= staleness_ : slowest == steps_;
}

std::vector<int> StaleClock::complete(int replica) {
  const auto own = checked_cast<std::size_t>(replica);
  ensure(!waits_.at(own) && completed_[own] < steps_, "a replica that was let go makes its step");
  ++completed_[own];
  waits_[own] = true;
  std::vector<int> released;
  for (std::size_t other = 0; other < waits_.size(); ++other) {
    if (!waits_[other] || !may_go_on(completed_[other])) continue;
    waits_[other] = false;
    released.push_back(checked_cast<int>(other));
  }
  return released;
}

std::size_t StaleClock::completed(int replica) const {
  return completed_.at(checked_cast<std::size_t>(replica));
}

std::size_t StaleClock::slowest() const { return *std::ranges::min_element(completed_); }

std::unique_ptr<ParameterServer> async_server(ServedWeights weights, std::size_t staleness,
                                              const train::TrainOptions& options,
                                              trace::StepTimeline& timeline) {
  return std::make_unique<AsyncServer>(std::move(weights), staleness, options, timeline);
}

}  // namespace ultra::data_parallel
