#include "chapters/10_mixed_precision/training/scaling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

/// Skipped steps in a row after which a constant scale is too large for good.
constexpr std::size_t kMostSkipsInARow = 50;

/// A state that an earlier run has saved; in files it may be damaged.
LossScale saved_scale(const std::vector<double>& state) {
  constexpr double kMostSteps = 1e15;
  const auto is_count = [](double x) { return x >= 0 && x < kMostSteps && x == std::floor(x); };
  if (state.size() != 3 || !(state[0] > 0) || !std::isfinite(state[0]) || !is_count(state[1]) ||
      !is_count(state[2])) {
    throw ConfigError(fmt::format(
        "the checkpoint's loss scale is [{}]; expected a number above 0, and two counts "
        "of steps. Resume another checkpoint.",
        fmt::join(state, ", ")));
  }
  return {.scale = state[0],
          .good_steps = static_cast<std::size_t>(state[1]),
          .skipped = static_cast<std::size_t>(state[2])};
}

class DynamicLossScaler : public train::LossScaler {
 public:
  explicit DynamicLossScaler(const LossScaleRule& rule)
      : rule_(rule), now_{.scale = rule.initial} {}

  double scale() const override { return now_.scale; }

  train::ScaledGradients step_ends(double scaled_norm) override {
    const UnscaledGradients found = unscale(scaled_norm, now_.scale);
    now_ = next_loss_scale(now_, found.overflow, rule_);
    if (found.overflow && now_.scale < kLeastScale) {
      throw NumericError(fmt::format(
          "the gradients overflow even with a loss scale of {:g}: they are not too small for their "
          "type, but infinite or NaN. Training diverged: lower --lr, raise --warmup, or train with "
          "--precision bf16.",
          2 * now_.scale));
    }
    return {.overflow = found.overflow, .norm = found.norm, .factor = found.factor};
  }

  std::size_t skipped() const override { return now_.skipped; }

  std::vector<double> state() const override {
    return {now_.scale, static_cast<double>(now_.good_steps), static_cast<double>(now_.skipped)};
  }
  void restore(const std::vector<double>& state) override { now_ = saved_scale(state); }

 private:
  LossScaleRule rule_;
  LossScale now_;
};

class ConstantLossScaler : public train::LossScaler {
 public:
  explicit ConstantLossScaler(double scale) : scale_(scale) {}

  double scale() const override { return scale_; }

  train::ScaledGradients step_ends(double scaled_norm) override {
    const UnscaledGradients found = unscale(scaled_norm, scale_);
    skipped_ += found.overflow ? 1 : 0;
    in_a_row_ = found.overflow ? in_a_row_ + 1 : 0;
    if (in_a_row_ == kMostSkipsInARow) {
      throw NumericError(
          fmt::format("the gradients have overflowed in {} steps in a row with --loss-scale {:g}. "
                      "Give a smaller one, or --loss-scale dynamic.",
                      in_a_row_, scale_));
    }
    return {.overflow = found.overflow, .norm = found.norm, .factor = found.factor};
  }

  std::size_t skipped() const override { return skipped_; }
  std::vector<double> state() const override {
    return {scale_, static_cast<double>(in_a_row_), static_cast<double>(skipped_)};
  }
  void restore(const std::vector<double>& state) override { skipped_ = saved_scale(state).skipped; }

 private:
  double scale_;
  std::size_t skipped_ = 0;
  std::size_t in_a_row_ = 0;
};

}  // namespace

std::unique_ptr<train::LossScaler> dynamic_loss_scaler(const LossScaleRule& rule) {
  return std::make_unique<DynamicLossScaler>(rule);
}

std::unique_ptr<train::LossScaler> constant_loss_scaler(double scale) {
  return std::make_unique<ConstantLossScaler>(scale);
}

}  // namespace ultra::mixed_precision
