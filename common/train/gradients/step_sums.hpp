#pragma once
/// @file
/// StepSums: what a rank adds up during a step and reads once, at its end.

#include <cstddef>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::train {

/// @brief The loss, and for each parameter the squares of its gradient.
///
/// The CPU adds them up as numbers of the host. A device with streams adds them up in its own memory,
/// so that nobody waits for it before the end of the step.
class StepSums {
 public:
  /// @param squares  how many parameters.
  StepSums(const Device& device, std::size_t squares);

  /// @brief All sums are 0 again.
  void begin();

  /// @brief Adds the squares of all elements to those of a parameter.
  void add_squares(std::size_t parameter, const Tensor& gradient);

  /// @brief [1] of f64, to which the device adds its losses; undefined on the CPU.
  [[nodiscard]] Tensor loss_on_device() const;

  /// @brief The squares by parameter, and last what the device has of the loss. Waits for a device
  /// with streams.
  [[nodiscard]] std::vector<double> read() const;

 private:
  [[nodiscard]] Tensor on_device(std::size_t index) const;

  std::vector<double> on_host_;
  Tensor on_device_;  // undefined on the CPU
};

}  // namespace ultra::train
