#pragma once
/// @file
/// MomentStore: where an optimizer's moments live.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief What AdamW keeps of a weight's gradients: two numbers for each of its elements.
struct Moments {
  Tensor first;   ///< decaying mean of the gradients, in the weight's shape
  Tensor second;  ///< decaying mean of their squares, likewise
};

/// @brief The moments of a list of tensors, of which a step borrows one after the other.
///
/// Where they are in between is the store's business: in the device's memory, in the host's, in a
/// file.
class MomentStore {
 public:
  MomentStore() = default;
  MomentStore(const MomentStore&) = delete;
  MomentStore& operator=(const MomentStore&) = delete;
  virtual ~MomentStore() = default;

  /// @brief Makes moments of zeros, once, before anything else.
  /// @param values  the weights: give shapes and device, and dtypes: moments of weights in two bytes
  /// are lent in f32.
  virtual void allocate(std::span<const Tensor> values) = 0;

  /// @brief Tensors whose moments it has; 0 before allocate().
  [[nodiscard]] virtual std::size_t size() const = 0;

  /// @brief The moments of tensor `i`, on the device, to be updated in place. Within a step tensors
  /// are borrowed in their order, each once.
  [[nodiscard]] virtual Moments borrow(std::size_t i) = 0;

  /// @brief The moments of tensor `i` have their new values; the borrower has let go of them.
  virtual void give_back(std::size_t i) = 0;

  /// @brief Ends a step: the new values of all moments are where they belong.
  virtual void end_step() {}

  /// @brief Copies the moments of tensor `i`, between steps.
  /// @param out  in the tensor's shape, on the CPU.
  virtual void read(std::size_t i, const Moments& out) = 0;

  /// @brief Replaces the moments of tensor `i`, between steps.
  /// @param in  in the tensor's shape, on the CPU.
  virtual void write(std::size_t i, const Moments& in) = 0;
};

/// @brief Moments in the device's memory, as MemoryCategory::kOptimizer: nothing moves.
[[nodiscard]] std::unique_ptr<MomentStore> moments_on_device();

}  // namespace ultra::optim
