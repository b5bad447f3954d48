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
#include "common/train/gradients/model_states.hpp"
#include "common/train/gradients/step_sums.hpp"

namespace ultra::train {

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
