#pragma once
/// @file
/// LossScaler: a factor on the loss that keeps small gradients above the smallest number of their
/// type.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ultra::train {

/// @brief What a scaler finds in the gradients of a scaled loss.
struct ScaledGradients {
  bool overflow;  ///< whether one of them, on any rank, is not finite: the step is skipped
  double norm;    ///< without the scale
  double factor;  ///< on each of them, which takes the scale out
};

/// @brief What the loss is multiplied by in each step, and what becomes of a step whose gradients
/// overflow. The same on every rank, since all see the same norm.
/// Bodies: chapters/10_mixed_precision/training/scaling.cpp.
class LossScaler {
 public:
  LossScaler() = default;
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;
  virtual ~LossScaler() = default;

  /// @brief The factor on the loss of the step to come.
  [[nodiscard]] virtual double scale() const = 0;

  /// @brief The gradients of a step are complete.
  /// @param scaled_norm  of all of them, over all ranks, as they are.
  /// @throws NumericError when no smaller scale would help.
  [[nodiscard]] virtual ScaledGradients step_ends(double scaled_norm) = 0;

  /// @brief Steps that were skipped up to now.
  [[nodiscard]] virtual std::size_t skipped() const = 0;

  /// @brief What a later run needs to go on as if this one had never stopped.
  [[nodiscard]] virtual std::vector<double> state() const = 0;
  /// @brief Goes on from the state() of an earlier run.
  virtual void restore(const std::vector<double>& state) = 0;
};

/// Makes a rank's loss scaler.
using MakeLossScaler = std::function<std::unique_ptr<LossScaler>()>;

/// @brief Numbers that belong to a training and are the same on every rank, by the name that they
/// have in a checkpoint.
struct NamedNumbers {
  std::string name;                                         ///< unique in the training
  std::function<std::vector<double>()> read;                ///< what they are
  std::function<void(const std::vector<double>&)> restore;  ///< what they were in an earlier run
};

}  // namespace ultra::train
