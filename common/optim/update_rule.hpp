#pragma once
/// @file
/// UpdateRule: how one tensor of weights changes by its gradient, and which states an optimizer keeps
/// for that.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

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

/// A rule's states of one weight.
using StateSpecs = std::span<const StateSpec>;

/// @brief What a weight is to a rule.
enum class WeightKind : std::uint8_t {
  kOther,  ///< a table, the output matrix, the weight of a norm
  kMatrix  ///< a linear map within a layer
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

/// @brief A tensor of a step, as a rule takes many at once.
struct NumberedUpdate {
  std::size_t number;              ///< in the list of updates
  TensorUpdate update;             ///< of it
  std::span<const Tensor> states;  ///< in the order of states(), in the weights' shape
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

  /// @brief The states that it needs of each weight of a kind.
  [[nodiscard]] virtual StateSpecs states(WeightKind kind) const = 0;

  /// @brief Changes the weights of a tensor, or of a piece of one.
  /// @param i       its number in the list of updates.
  /// @param states  in the order of states(), in the weights' shape; updated. Lent for this call.
  virtual void apply(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
                     const StepConstants& step) const = 0;

  /// @brief Changes the weights of many tensors, or of pieces, as apply() does one after the other.
  virtual void apply_all(std::span<const NumberedUpdate> updates, const StepConstants& step) const;

  /// @brief Whether apply_all() is one pass over all memory of such a device, which takes gradients and
  /// weights of any type, updates master weights where there are some, and rounds them.
  [[nodiscard]] virtual bool applies_in_one_pass(DeviceKind /*device*/) const { return false; }

  /// @brief Whether weights of a kind change as whole matrices only. Then the three functions below take
  /// the place of apply(): the first and the last see a piece, as apply() does, the second a matrix.
  [[nodiscard]] virtual bool needs_whole(WeightKind /*kind*/) const { return false; }

  /// @brief The piece of the matrix that transform() needs: in the piece's shape, and memory of its own.
  /// @param states  as those of apply().
  [[nodiscard]] virtual Tensor direction(std::size_t i, const TensorUpdate& update,
                                         std::span<const Tensor> states,
                                         const StepConstants& step) const;

  /// @brief Turns a whole matrix of directions into that of the weights' step, in place.
  /// @param matrix  [rows, columns] of the whole weight.
  virtual void transform(const Tensor& matrix) const;

  /// @brief Changes the weights of a piece.
  /// @param update  with the transformed direction in the gradient's place.
  virtual void step_along(std::size_t i, const TensorUpdate& update,
                          const StepConstants& step) const;
};

/// A rule, shared by the optimizers of all data groups.
using Rule = std::shared_ptr<const UpdateRule>;

/// @brief A rule around another one: the same states, for weights that are changed in a way of its own.
class RuleAround : public UpdateRule {
 public:
  /// @brief Around `inner`.
  explicit RuleAround(Rule inner) : inner_(std::move(inner)) {}

  StateSpecs states(WeightKind kind) const override { return inner_->states(kind); }
  bool needs_whole(WeightKind kind) const override { return inner_->needs_whole(kind); }
  void apply(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
             const StepConstants& step) const override;
  Tensor direction(std::size_t i, const TensorUpdate& update, std::span<const Tensor> states,
                   const StepConstants& step) const override {
    return inner_->direction(i, update, states, step);
  }
  void transform(const Tensor& matrix) const override { inner_->transform(matrix); }
  void step_along(std::size_t i, const TensorUpdate& update,
                  const StepConstants& step) const override;

 protected:
  /// @brief The rule that this one stands around.
  [[nodiscard]] const UpdateRule& inner() const { return *inner_; }

  /// Changes weights by the inner rule: those of the update, or others in their place.
  using ByRule = std::function<void(const Tensor& value, const Tensor& gradient)>;

  /// @brief Changes the weights of a piece.
  /// @param by_rule  call it once.
  virtual void change(std::size_t i, const TensorUpdate& update, const StepConstants& step,
                      const ByRule& by_rule) const = 0;

 private:
  Rule inner_;
};

}  // namespace ultra::optim
