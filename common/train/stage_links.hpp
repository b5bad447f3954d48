#pragma once
/// @file
/// StageLinks: how activations get from a chunk of the model to the next, and their gradients back.

#include <span>
#include <string>

#include "common/tensor/tensor.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::train {

/// @brief What stands between the chunks of a model that is cut into stages; a pipeline brings it.
///
/// Called in the order of the schedule, with the action that needs or gives the tensor.
/// Bodies: chapters/07_pipeline_parallel/execution/pipeline_links.cpp.
class StageLinks {
 public:
  StageLinks() = default;
  StageLinks(const StageLinks&) = delete;
  StageLinks& operator=(const StageLinks&) = delete;
  virtual ~StageLinks() = default;

  /// @brief These passes begin: a step's, or only its forward passes.
  virtual void passes_begin([[maybe_unused]] std::span<const Action> schedule) {}
  /// @brief An action begins: the time to post receives for what arrives after it.
  virtual void action_begins([[maybe_unused]] const Action& action) {}
  /// @brief The input of a forward pass: what the previous chunk has given, [batch, seq, hidden].
  [[nodiscard]] virtual Tensor receive(const Action& forward) = 0;
  /// @brief The output of a forward pass, for the next chunk.
  virtual void send(const Action& forward, const Tensor& output) = 0;
  /// @brief The gradient of that output, from the next chunk.
  [[nodiscard]] virtual Tensor receive_gradient(const Action& backward) = 0;
  /// @brief The gradient of the input, for the previous chunk.
  virtual void send_gradient(const Action& backward, const Tensor& gradient) = 0;
  /// @brief The passes are over: returns when nothing is under way.
  virtual void finish() {}
  /// @brief Where an action takes place, in words: what an error in it adds to its message.
  [[nodiscard]] virtual std::string place([[maybe_unused]] const Action& action) const {
    return {};
  }
};

}  // namespace ultra::train
