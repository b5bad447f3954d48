#pragma once
/// @file
/// ServedWeights: the slices of the weights that one server keeps, with their optimizer's state.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/parameter_server/send_queue.hpp"
#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/optim/optimizer.hpp"
#include "common/tensor/tensor.hpp"

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

}  // namespace ultra::data_parallel
