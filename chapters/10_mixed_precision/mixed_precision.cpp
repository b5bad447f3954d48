#include "chapters/10_mixed_precision/mixed_precision.hpp"

#include <fmt/format.h>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/10_mixed_precision/formats/format_table.hpp"
#include "chapters/10_mixed_precision/fp8/amax_observer.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "chapters/10_mixed_precision/optimizer_states/bf16_moments.hpp"
#include "chapters/10_mixed_precision/optimizer_states/int8_moments.hpp"
#include "chapters/10_mixed_precision/training/scaling.hpp"
#include "chapters/10_mixed_precision/training/sum_drift.hpp"
#include "chapters/10_mixed_precision/training/weight_steps.hpp"
#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

/// Tells the estimates in which precision they are asked for.
void name_estimate(memory::Memory& memory, const PrecisionOptions& options) {
  if (options.estimate_only) {
    if (!memory.options().estimates()) {
      throw ConfigError(fmt::format(
          "--precision {} needs --estimate MODEL. For training use fp32, bf16, bf16-pure, fp16 or "
          "fp8; --dtype f64 for everything in f64.",
          memory::to_string(*options.estimate_only)));
    }
    memory.set_estimate_precision(*options.estimate_only);
  } else if (options.recipe_given && !options.is_mixed()) {
    memory.set_estimate_precision(memory::NumberFormats::kFp32);
  }
}

memory::StoredFormats stored_formats(const train::TrainOptions& train,
                                     const PrecisionOptions& options) {
  const auto bytes = [](DType type) { return static_cast<double>(size_of(type)); };
  const nn::Precision types = train.formats();
  const double moments = options.moment_bytes().value_or(2 * bytes(train.dtype));
  const double masters = types.has_master_weights() ? bytes(types.optimizer) : 0;
  memory::StoredFormats stored{.states = {.parameters = bytes(types.parameters),
                                          .gradients = bytes(types.gradients),
                                          .state = moments / 2,
                                          .masters = masters},
                               .activations = options.is_mixed()
                                                  ? memory::NumberFormats::kTwoBytes
                                                  : memory::precision_of(train.dtype)};
  if (options.recipe != Recipe::kFp8) return stored;
  const Fp8Recipe fp8 = options.fp8();
  stored.activations = fp8.scaling == Scaling::kBlockwise ? memory::NumberFormats::kFp8Tiles
                                                          : memory::NumberFormats::kFp8Tensors;
  if (fp8.scaling == Scaling::kDelayed) stored.history = 1 + fp8.history;
  return stored;
}

train::MakeLossScaler loss_scaler_of(const PrecisionOptions& options) {
  if (options.scaling() == LossScaling::kConstant) {
    return [scale = options.constant_scale] { return constant_loss_scaler(scale); };
  }
  return [rule = options.scale_rule()] { return dynamic_loss_scaler(rule); };
}

}  // namespace

void MixedPrecision::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void MixedPrecision::validate(train::Setup& setup) {
  options_.validate(setup.train.dtype);
  if (options_.is_mixed()) {
    setup.train.precision = options_.types();
  } else if (options_.recipe_given) {
    setup.train.precision.reset();
  }
  auto* memory = setup.find<memory::Memory>();
  ensure(memory != nullptr, "a program without chapter 01");
  name_estimate(*memory, options_);
  if (options_.is_mixed() || options_.moment_bytes()) {
    memory->set_formats(stored_formats(setup.train, options_));
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

std::unique_ptr<train::Technique> technique() { return std::make_unique<MixedPrecision>(); }

}  // namespace ultra::mixed_precision
