#pragma once
/// @file
/// GradientExchange: how the gradients of a step become those of all its tokens.

#include <cstddef>

namespace ultra::train {

/// @brief Adds up the shares of gradients that the ranks of a data group have made.
///
/// Every rank's gradients are shares of the global batch's: their losses are divided by its tokens.
/// So what completes them is a sum. The step tells what becomes of the gradients, an exchange says
/// when they travel.
///
/// In each step: step_begins(); during the passes contributed() and completed(); finish().
/// Parameters are numbered as they were given to the exchange. Collective: the ranks of the group
/// start their operations in one order, that of the schedule and of the parameters.
/// Bodies: chapters/02_collectives/replicated_training.cpp,
/// chapters/03_data_parallel/bucketed_gradients.cpp, chapters/04_zero/shards/gradient_shards.cpp.
class GradientExchange {
 public:
  GradientExchange() = default;
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  virtual ~GradientExchange() = default;

  /// @brief A step's passes begin.
  virtual void step_begins() {}

  /// @brief An action that makes gradients begins.
  /// @param chunk  of this rank's model: whose gradients.
  virtual void action_begins([[maybe_unused]] std::size_t chunk) {}

  /// @brief The action under way has made its whole contribution to a gradient; others may follow.
  virtual void contributed([[maybe_unused]] std::size_t parameter) {}

  /// @brief The step has made its last contribution to a gradient.
  virtual void completed([[maybe_unused]] std::size_t parameter) {}

  /// @brief That action ends: it has contributed to every parameter that it could.
  virtual void action_ends([[maybe_unused]] std::size_t chunk) {}

  /// @brief The passes are over. Returns when the gradients that this rank keeps are sums over the
  /// group: bitwise the same on all ranks that keep them.
  virtual void finish() = 0;
};

}  // namespace ultra::train
