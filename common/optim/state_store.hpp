#pragma once
/// @file
/// StateStore: where an optimizer's states live.

#include <cstddef>
#include <memory>
#include <span>

#include "common/optim/update_rule.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief The states of a list of tensors, of which a step borrows one tensor's after the other.
///
/// Where they are in between is the store's business: in the device's memory, in the host's, in a
/// file. A tensor's states are a list in the order of its specs.
/// Bodies: state_store.cpp, chapters/04_zero/offload/offloaded_states.cpp,
/// chapters/10_mixed_precision/optimizer_states/stored_states.cpp.
class StateStore {
 public:
  StateStore() = default;
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;
  virtual ~StateStore() = default;

  /// @brief Makes states of zeros, once, before anything else.
  /// @param values  the weights: give shapes and device, and dtypes: states of weights in two bytes
  /// are lent in f32.
  /// @param specs   of each tensor.
  virtual void allocate(std::span<const Tensor> values, std::span<const StateSpecs> specs) = 0;

  /// @brief Tensors whose states it has; 0 before allocate().
  [[nodiscard]] virtual std::size_t size() const = 0;

  /// @brief The states of tensor `i`, on the device, to be updated in place; valid until it is given
  /// back. Before end_step() tensors are borrowed in their order, each once.
  [[nodiscard]] virtual std::span<const Tensor> borrow(std::size_t i) = 0;

  /// @brief The states of tensor `i` have their new values; the borrower has let go of them.
  virtual void give_back(std::size_t i) = 0;

  /// @brief Ends a step: the new values of all states are where they belong.
  virtual void end_step() {}

  /// @brief Whether what it lends stays where it is until end_step(), so that a rule can take all tensors
  /// at once.
  [[nodiscard]] virtual bool lends_all() const { return false; }

  /// @brief Whether the weights are there only while a tensor's states are lent, too.
  [[nodiscard]] virtual bool lends_weights() const { return false; }

  /// @brief Copies the states of tensor `i`, between steps.
  /// @param out  in the tensor's shape, on the CPU.
  virtual void read(std::size_t i, std::span<const Tensor> out) = 0;

  /// @brief Replaces the states of tensor `i`, between steps.
  /// @param in  in the tensor's shape, on the CPU.
  virtual void write(std::size_t i, std::span<const Tensor> in) = 0;
};

/// @brief States in the device's memory, as MemoryCategory::kOptimizer: nothing moves.
[[nodiscard]] std::unique_ptr<StateStore> states_on_device();

}  // namespace ultra::optim
