#pragma once
/// @file
/// UpdateRule: how one tensor of weights changes by its gradient, and which states an optimizer keeps
/// for that.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/tensor/tensor.hpp"

namespace ultra::optim {

/// @brief Which signs the numbers of a state have.
enum class Signs : std::uint8_t {
  kBoth,        ///< any
  kNonNegative  ///< none is below zero: a mean of squares
};

/// @brief A state that an optimizer keeps of each weight: a number for each of its elements, zero at
/// first.
struct StateSpec {
  std::string_view name;       ///< in checkpoints, by PyTorch's name: "exp_avg"
  Signs signs = Signs::kBoth;  ///< of its numbers
};

/// @brief A weight and its gradient; either may be one rank's shard.
struct TensorUpdate {
  Tensor value;  ///< weights, updated in place
  Tensor grad;   ///< gradient of the same shape
  bool decay;    ///< whether weight decay applies; norm weights are left alone
  /// The same weights in a wider type, which the optimizer keeps; undefined where it keeps none.
  Tensor master = {};
};

/// @brief What one step has in common for all tensors.
struct StepConstants {
  double learning_rate;         ///< step size
  double gradient_scale = 1.0;  ///< factor on the gradient: the clipping coefficient
  int step = 1;                 ///< 1 for the first step
};

/// @brief How an optimizer changes a tensor. A rule has no state of its own, so that any store can
/// keep what it needs; rules stand around rules, as master weights do.
///
/// Bodies: the files of rules.cpp's table; chapters/10_mixed_precision/training/weight_steps.cpp is one
/// around another.
class UpdateRule {
 public:
  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;
  virtual ~UpdateRule() = default;

  /// @brief The states that it needs of each weight.
  [[nodiscard]] virtual std::span<const StateSpec> states() const = 0;

  /// @brief Changes the weights of a tensor, or of a piece of one.
  /// @param i       its number in the list of updates.
  /// @param states  in the order of states(), in the weights' shape; updated. Lent for this call.
  virtual void apply(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
                     const StepConstants& step) const = 0;
};

/// A rule, shared by the optimizers of all data groups.
using Rule = std::shared_ptr<const UpdateRule>;

}  // namespace ultra::optim
