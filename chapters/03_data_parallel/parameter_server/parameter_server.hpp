#pragma once
/// @file
/// ParameterServer: what one server does from the first step to the last; ServedWeights: the slices of the weights
/// that it keeps, with their optimizer's state.
///
/// Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server", OSDI;
/// Dean et al. 2012, "Large scale distributed deep networks", NeurIPS (asynchronous); Ho et al.
/// 2013, "More effective distributed ML via a stale synchronous parallel parameter server", NeurIPS
/// (bounded staleness).

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/parameter_server/send_queue.hpp"
#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/optim/optimizer.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/options/options.hpp"
#include "common/train/run/worker.hpp"

namespace ultra::data_parallel {

/// @brief A server's slices, and the messages that bring gradients in and weights out.
///
/// Its slices are numbered 0, 1, ... in forward order. Each has an optimizer of its own, whose steps
/// are the updates of that slice.
/// Memory: with n elements in all slices, n (parameters) and 2 n (optimizer, from the first update).
class ServedWeights {
 public:
  /// @brief Receives the weights that training begins with from replica 0: see send_first_weights().
  /// @param rule  how a step changes a tensor.
  ServedWeights(const ServerWorld& servers, const ServedModel& model, const Device& device,
                DType dtype, const optim::Rule& rule);

  /// @brief Number of slices.
  [[nodiscard]] std::size_t size() const { return slices_.size(); }
  /// @brief N.
  [[nodiscard]] int replicas() const { return servers_.replicas(); }
  /// @brief The group of all servers.
  [[nodiscard]] const Communicator& server_group() const { return servers_.group; }
  /// @brief The weights of a slice: [its elements].
  [[nodiscard]] const Tensor& value(std::size_t slice) const { return slices_[slice].value; }

  /// @brief Memory for a slice that travels: [its elements], uninitialised.
  [[nodiscard]] Tensor buffer(std::size_t slice) const;

  /// @brief Changes the weights of a slice by one step of the optimizer.
  void update(std::size_t slice, const Tensor& gradient, double learning_rate,
              double gradient_scale);

  /// @brief Receives a replica's gradient of a slice in a step (1 for the first).
  [[nodiscard]] Work receive(std::size_t slice, int replica, std::size_t step,
                             const Tensor& gradient) const;
  /// @brief Sends a replica the weights of a slice after a step.
  ///
  /// With Priority::kPriority slices that the forward pass needs first go first.
  /// @param values  must not change until the send has ended.
  [[nodiscard]] Work send(std::size_t slice, int replica, std::size_t step,
                          const Tensor& values) const;

 private:
  struct Kept {
    std::size_t number;      // among all slices of the model
    Communicator messenger;  // labelled with the parameter
    Tensor value;
    bool decays;
    optim::Optimizer optimizer;
  };

  ServerWorld servers_;
  ServedModel model_;
  std::vector<Kept> slices_;
  std::shared_ptr<SendQueue> queue_;  // null: each send begins at once
};

/// @brief Sends the servers the weights that training begins with. For replica 0.
/// @param values  of all parameters.
void send_first_weights(const ServerWorld& servers, const ServedModel& model,
                        const std::vector<Tensor>& values);

/// @brief One server of a run.
class ParameterServer {
 public:
  ParameterServer() = default;
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  virtual ~ParameterServer() = default;

  /// @brief Serves until all replicas have pushed the gradients of this step. Weights may still be
  /// on their way to them. Called once for each step, in their order.
  /// @return the sum of the squares of what this server has of the gradient of the step, before
  /// clipping, as far as it knows: 0 from an asynchronous one.
  /// @throws NumericError when that is not finite.
  [[nodiscard]] virtual double serve(const train::StepPlan& plan) = 0;

  /// @brief Returns when all weights have been delivered.
  virtual void drain() = 0;
};

/// @brief Adds up what all replicas push, and updates once per step: what one rank would compute.
///
/// Contributions to a slice are added in the order of the replicas, which gives the same bits as an
/// all-reduce in rank order. A slice is updated and sent back as soon as all replicas have pushed
/// it. But clipping (options.clip_norm above 0) needs the norm of the whole gradient first: then
/// all slices wait for the last one, and the servers for each other.
/// Cost: its weights sent N times per step; with clipping, an all-reduce of one f64 among the
/// servers. Memory: N times its weights, for the gradients that come in; see ServedWeights for the
/// rest.
/// @param options  outlives the server.
[[nodiscard]] std::unique_ptr<ParameterServer> sync_server(ServedWeights weights,
                                                           const train::TrainOptions& options,
                                                           trace::StepTimeline& timeline);

/// @brief Stale synchronous parallel: a replica that has completed c steps begins the next one when
/// every replica has completed c - staleness.
///
/// 0 makes all wait for all in every step; without a limit it is Downpour (Dean et al. 2012, "Large
/// scale distributed deep networks", NeurIPS). After the last step everybody waits for all, so that
/// everybody ends with the same weights.
/// Source: Ho et al. 2013 (see above), section 2.
class StaleClock {
 public:
  /// @param steps  of the whole run.
  StaleClock(int replicas, std::size_t staleness, std::size_t steps);

  /// @brief A replica has completed its next step.
  /// @return the replicas that may go on now and could not before, in their order.
  [[nodiscard]] std::vector<int> complete(int replica);

  /// @brief Steps that a replica has completed.
  [[nodiscard]] std::size_t completed(int replica) const;
  /// @brief Steps that all replicas have completed.
  [[nodiscard]] std::size_t slowest() const;

 private:
  [[nodiscard]] bool may_go_on(std::size_t completed) const;

  std::size_t staleness_;
  std::size_t steps_;
  std::vector<std::size_t> completed_;  // by replica
  std::vector<bool> waits_;             // by replica: it has completed a step and may not go on
};

/// @brief Applies what each replica pushes as it comes, by a step of AdamW of its own.
///
/// Its learning rate is that of the replica's step over N, so that one step of all replicas moves
/// the weights about as far as one synchronous step. A replica gets the weights, as they are then,
/// when it has pushed all slices of a step and StaleClock lets it go on; each server decides that
/// for itself. Replicas clip their gradients themselves.
/// Deviation: Downpour uses Adagrad, and replicas may push and pull less often than in every step.
/// Cost: as the synchronous one, without all-reduce.
/// Memory: 2 N times its weights, for gradients that come in and for weights on their way out.
[[nodiscard]] std::unique_ptr<ParameterServer> async_server(ServedWeights weights,
                                                            std::size_t staleness,
                                                            const train::TrainOptions& options,
                                                            trace::StepTimeline& timeline);

}  // namespace ultra::data_parallel
