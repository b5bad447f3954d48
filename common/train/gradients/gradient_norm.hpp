#pragma once
/// @file
/// The norm of a gradient that stands in pieces on many ranks, and sums over ranks.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/nn/model.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::train {

/// @brief The losses, and for each parameter the squares of its gradient.
///
/// The CPU adds them up as numbers of the host, a device with streams in its own memory: nobody waits
/// before the step ends. Where sums follow trees, each is as many numbers as ops::digits_of_sums.
class StepSums {
 public:
  /// @param squares  how many parameters.
  /// @param losses   how many losses.
  StepSums(const Device& device, std::size_t squares, std::size_t losses = 1);

  /// @brief All sums are 0 again.
  void begin();

  /// @brief Adds the squares of all elements to those of a parameter.
  void add_squares(std::size_t parameter, const Tensor& gradient);

  /// @brief Adds a number of others, where those are.
  void add(std::size_t parameter, const StepSums& others, std::size_t other);

  /// @brief Of f64, to which the device adds its losses; undefined where the host does.
  /// @param loss  which of them.
  [[nodiscard]] Tensor loss_on_device(std::size_t loss = 0) const;

  /// @brief The squares by parameter, and last what the device has of the losses, digit by digit. Waits
  /// for a device with streams.
  [[nodiscard]] std::vector<double> read() const;

 private:
  [[nodiscard]] Tensor on_device(std::size_t index) const;

  std::size_t squares_;
  std::vector<double> on_host_;
  Tensor on_device_;  // [sums, digits]; undefined where the host adds
};

/// @brief Adds up numbers over ranks, in place: the same result on all of them.
/// Collective.   Cost: an all-reduce of f64.
void sum_over(const Communicator& ranks, std::span<double> numbers);

/// @brief Numbers the parameters of the whole model in its forward order, whatever a rank has of
/// them.
class ParameterNumbers {
 public:
  /// @param whole  nn::named_shapes() of the whole model.
  explicit ParameterNumbers(std::span<const nn::NamedShape> whole);

  /// @brief How many there are.
  [[nodiscard]] std::size_t size() const { return numbers_.size(); }
  /// @brief The number of a parameter.
  /// @throws InternalError when the whole model has none of that name.
  [[nodiscard]] std::size_t of(const nn::Parameter& parameter) const;

 private:
  std::map<std::string, std::size_t> numbers_;
};

/// @brief Adds the squares of this rank's gradients to those of their parameters: each element on
/// one rank only, its owner.
/// @param updates  of states.pieces(), complete.
/// @param sums     with numbers.size() parameters.
void add_owned_squares(const ModelStates& states, std::span<const optim::TensorUpdate> updates,
                       const ParameterNumbers& numbers, StepSums& sums);

/// @brief The Euclidean norm of a gradient, from the squares of the parameters.
///
/// They are added in the model's order: which rank has a layer changes no bit.
[[nodiscard]] double norm_of(std::span<const double> squares);

}  // namespace ultra::train
