#include "chapters/10_mixed_precision/mixed_precision.hpp"

#include <fmt/format.h>

#include "chapters/10_mixed_precision/formats/number_format.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "chapters/10_mixed_precision/optimizer_states/bf16_moments.hpp"
#include "chapters/10_mixed_precision/optimizer_states/int8_moments.hpp"
#include "chapters/10_mixed_precision/training/rounded_sums.hpp"
#include "chapters/10_mixed_precision/training/scaling.hpp"
#include "chapters/10_mixed_precision/training/weight_steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

train::MakeLossScaler loss_scaler_of(const PrecisionOptions& options) {
  if (options.scaling() == LossScaling::kConstant) {
    return [scale = options.constant_scale] { return constant_loss_scaler(scale); };
  }
  return [rule = options.scale_rule()] { return dynamic_loss_scaler(rule); };
}

constexpr const char* kRow = "{:<10}{:>5}{:>9}{:>6}{:>13}{:>13}{:>13}{:>13}{:>15}  {}\n";

std::string_view top_of(const NumberFormat& format) {
  switch (format.top) {
    case TopExponent::kInfinityAndNan:
      return "infinity and NaN";
    case TopExponent::kOneNan:
      return "NaN, no infinity";
    case TopExponent::kNumbers:
      return "neither";
  }
  return {};
}

std::string row_of(const NumberFormat& format) {
  return fmt::format(
      fmt::runtime(kRow), format.name, format.bits(),
      fmt::format("1/{}/{}", format.exponent_bits, format.fraction_bits), format.bias(),
      fmt::format("{:.6g}", format.largest()), fmt::format("{:.6g}", format.smallest_normal()),
      fmt::format("{:.6g}", format.smallest_subnormal()), fmt::format("{:.6g}", format.epsilon()),
      format.finite_numbers(), top_of(format));
}

}  // namespace

std::string format_table() {
  std::string table =
      fmt::format(fmt::runtime(kRow), "format", "bits", "s/e/f", "bias", "largest", "min normal",
                  "min above 0", "epsilon", "finite values", "beyond");
  for (const NumberFormat& format : kNumberFormats) table += row_of(format);
  return table +
         "epsilon: from 1 to the next number. The scale of an MX block of 32 is e8m0: one byte, a "
         "power of two from 2^-127 to 2^127, or NaN.\n";
}

void MixedPrecision::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void MixedPrecision::validate(train::Setup& setup) {
  options_.validate(setup.train.dtype);
  if (options_.is_mixed()) {
    setup.train.precision = options_.types();
  } else if (options_.recipe_given) {
    setup.train.precision.reset();
  }
}

void MixedPrecision::check_ranks(train::Setup& setup) { train::reject_conflicts(conflicts(setup)); }

train::ExtraConfig MixedPrecision::config(const train::Setup&) const { return options_.config(); }

train::Identity MixedPrecision::identity(const train::Setup&) const {
  // Histories are a part of the model's state, which no other training has.
  if (options_.recipe != Recipe::kFp8 || options_.fp8().scaling != Scaling::kDelayed) return {};
  return {{"--fp8-recipe delayed", "(with --precision fp8)"}};
}

std::vector<train::Question> MixedPrecision::questions() const {
  std::vector<train::Question> asked;
  if (options_.formats) asked.push_back({"--formats", train::Instead::kAnswer});
  if (options_.sum_drift) asked.push_back({"--sum-drift", train::Instead::kAnswer});
  return asked;
}

std::optional<std::string> MixedPrecision::answer(const train::Setup& setup) const {
  if (options_.formats) return format_table();
  if (options_.sum_drift) return sum_drift_table(setup.train.seed);
  return {};
}

// [region technique]
void MixedPrecision::configure_plan(train::Plan& plan, const train::Setup&) const {
  if (options_.recipe == Recipe::kFp8) add_fp8_groups(plan, options_.fp8());
}

void MixedPrecision::wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                                 const train::Setup&) const {
  if (options_.rounded_sums.any()) {
    factories.push_back(
        std::make_unique<RoundedSumsFactory>(*factories.back(), options_.rounded_sums));
  }
  if (options_.recipe != Recipe::kFp8) return;
  factories.push_back(
      std::make_unique<Fp8Factory>(*factories.back(), fp8_scope(options_.fp8(), plan)));
}

void MixedPrecision::configure_step(train::StepConfig& step_config,
                                    const train::Setup& setup) const {
  if (options_.is_mixed() || options_.counts_updates) {
    auto figures = options_.counts_updates ? std::make_shared<UpdateFigures>() : nullptr;
    step_config.weight_rule.claim(
        "--precision",
        weight_rule({.rounding = options_.rounding, .seed = setup.train.seed, .figures = figures}));
    if (figures) step_config.observers.push_back(note_figures(figures));
  }
  if (options_.moments == MomentFormat::kBf16) {
    step_config.store.claim("--optimizer-state", bf16_moments);
  }
  if (options_.moments == MomentFormat::kInt8) {
    step_config.store.claim("--optimizer-state", [] { return int8_moments(); });
  }
  if (options_.scaling() != LossScaling::kNone) {
    step_config.loss_scaler.claim("--loss-scale", loss_scaler_of(options_));
  }
  if (options_.recipe == Recipe::kFp8) {
    // Before those who compare replicas: in a step, each rank has seen its own maxima only.
    step_config.observers.insert(step_config.observers.begin(),
                                 [recipe = options_.fp8()](const train::ModelScope& scope) {
                                   return observe_fp8(scope, recipe);
                                 });
  }
}
// [/region]

void MixedPrecision::write_formulas(train::Formulas& formulas, const train::Setup&) const {
  if (options_.recipe == Recipe::kFp8 || options_.moments != MomentFormat::kF32) formulas.clear();
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<MixedPrecision>(); }

}  // namespace ultra::mixed_precision
