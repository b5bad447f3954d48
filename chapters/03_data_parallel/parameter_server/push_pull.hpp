#pragma once
/// @file
/// PushPull: a replica's end of a parameter server. It pushes gradients and pulls weights.
///
/// The servers hold the optimizer, so a replica has none. When its gradients go and when it waits
/// for weights is what ServerSettings::priority says; the numbers are the same whatever it says.
/// Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server", OSDI
/// (push and pull); Zhang et al. 2017, "Poseidon", arXiv 1706.03292, section 3 (wait-free
/// backpropagation); Jayarajan et al. 2019, "Priority-based parameter propagation", arXiv
/// 1905.03960; Peng et al. 2019, "A generic communication scheduler for distributed DNN training
/// acceleration" (ByteScheduler), SOSP.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "common/comm/work.hpp"
#include "common/nn/model.hpp"
#include "common/train/gradients/gradient_exchange.hpp"

namespace ultra::data_parallel {

/// @brief When a replica's gradients go.
enum class Push : std::uint8_t {
  kByPriority,  ///< as ServerSettings::priority says
  kLate,        ///< not before push(): the replica may change them when it has all
};

/// @brief Pushes a model's gradients to the servers, and pulls its weights from them.
///
/// Deviation from GradientExchange: finish() adds up nothing and waits for nobody. push() sends what
/// is left and asks for the weights; forward passes of the next step wait for these, each block for
/// its own, with Priority::kNone step_begins() for all.
///
/// A parameter's weights are asked for when its gradient is pushed, and land in the parameter
/// itself: nothing in the backward pass reads them any more (see common/nn/README.md). So they may
/// arrive while earlier blocks still compute.
/// Not collective: servers alone wait for others.
/// Cost: the gradients' bytes sent, in one message per slice and step.
/// Memory: none besides model and gradients; gradients that are still on their way when the model
/// drops them live until the next forward pass.
class PushPull : public train::GradientExchange {
 public:
  /// @brief Ready for the first step.
  /// @param model   must outlive the use of this object; it may be gone first or last.
  /// @param served  the same parameters, as the servers know them.
  PushPull(nn::Model& model, const ServerWorld& servers, const ServedModel& served,
           Push when = Push::kByPriority);
  ~PushPull() override;

  void step_begins() override;
  void completed(std::size_t parameter) override;
  void finish() override;

  /// @brief Pushes what has not gone yet; after finish(), once per step.
  void push();

  /// @brief Returns when the weights after the last step are here.
  void drain();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  nn::HookHandle hook_;  // of the replica's model
};

}  // namespace ultra::data_parallel
