#include "chapters/10_mixed_precision/options/precision_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "chapters/10_mixed_precision/optimizer_states/bf16_moments.hpp"
#include "chapters/10_mixed_precision/optimizer_states/int8_moments.hpp"
#include "chapters/10_mixed_precision/training/scaling.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kGroup = "Mixed precision";
constexpr double kSmallestConstant = 1e-30;
constexpr double kLargestScale = 1e30;

const std::vector<train::Choice<Recipe>> kRecipes = {{"fp32", Recipe::kFp32},
                                                     {"bf16", Recipe::kBf16},
                                                     {"bf16-pure", Recipe::kBf16Pure},
                                                     {"fp16", Recipe::kFp16},
                                                     {"fp8", Recipe::kFp8}};
const std::vector<train::Choice<Rounding>> kRoundings = {{"nearest", Rounding::kNearest},
                                                         {"stochastic", Rounding::kStochastic}};
const std::vector<train::Choice<MomentFormat>> kMoments = {
    {"f32", MomentFormat::kF32}, {"bf16", MomentFormat::kBf16}, {"int8", MomentFormat::kInt8}};
const std::vector<train::Choice<bool>> kSwitch = {{"on", true}, {"off", false}};
const std::vector<train::Choice<DType>> kGradients = {
    {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"f16", DType::kF16}};
const std::vector<train::Choice<Scaling>> kFp8Recipes = {{"delayed", Scaling::kDelayed},
                                                         {"current", Scaling::kCurrent},
                                                         {"blockwise", Scaling::kBlockwise},
                                                         {"none", Scaling::kNone}};

template <class T>
std::string word_of(const std::vector<train::Choice<T>>& choices, T value) {
  return std::string(std::ranges::find(choices, value, &train::Choice<T>::second)->first);
}

double scale_from(const std::string& text) {
  const std::optional<double> scale = parse_number<double>(text);
  if (scale && *scale >= kSmallestConstant && *scale <= kLargestScale) return *scale;
  throw ConfigError(fmt::format(
      "--loss-scale is {}. It must be dynamic, none, or a number from {:g} to {:g}; a power of two "
      "costs no bit.",
      in_quotes(text), kSmallestConstant, kLargestScale));
}

[[noreturn]] void refuse(std::string_view flag, Recipe recipe, std::string_view why) {
  throw ConfigError(
      fmt::format("{} does not go together with --precision {}: {}", flag, to_string(recipe), why));
}

}  // namespace

std::string_view to_string(Recipe recipe) {
  return std::ranges::find(kRecipes, recipe, &train::Choice<Recipe>::second)->first;
}

void PrecisionOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, kGroup);
  flags.add_parsed(
      "--precision",
      [this](const std::string& text) {
        recipe_given = true;
        recipe = train::parse_choice("--precision", text, kRecipes);
      },
      "fp32, bf16, bf16-pure, fp16 or fp8", "fp32");
  flags.add_parsed(
      "--master-weights",
      [this](const std::string& text) {
        master_weights = train::parse_choice("--master-weights", text, kSwitch);
      },
      "on or off: whether the optimizer keeps the weights in f32; default: on, but for bf16-pure");
  flags.add_parsed(
      "--grad-dtype",
      [this](const std::string& text) {
        grad_dtype = train::parse_choice("--grad-dtype", text, kGradients);
      },
      "f32, bf16 or f16: what gradients of weights are added up in; default: f32, but for "
      "bf16-pure");
  flags.add_parsed(
      "--loss-scale",
      [this](const std::string& text) {
        loss_scaling = text == "dynamic" ? LossScaling::kDynamic
                       : text == "none"  ? LossScaling::kNone
                                         : LossScaling::kConstant;
        if (loss_scaling == LossScaling::kConstant) constant_scale = scale_from(text);
      },
      "dynamic, none, or a factor on the loss; default: dynamic for fp16, else none");
  flags.add("--loss-scale-start", scale_start, "first value of a dynamic scale [65536]",
            {kLeastScale, kLargestScale});
  flags.add("--loss-scale-window", scale_window,
            "steps without overflow after which a dynamic scale doubles [2000]",
            {1, train::kMostSteps});
  flags.add_parsed(
      "--fp8-recipe",
      [this](const std::string& text) {
        fp8_scaling = train::parse_choice("--fp8-recipe", text, kFp8Recipes);
      },
      "scales of fp8 numbers: delayed (from earlier steps), current, blockwise (then experts "
      "are in fp8 too), or none",
      "delayed");
  train::add_choice(app, "--rounding", rounding, kRoundings, kGroup,
                    "of updated weights in bf16 without master weights: nearest or stochastic");
  train::add_choice(app, "--optimizer-state", moments, kMoments, kGroup,
                    "the optimizer's moments: f32, bf16 or int8 (in blocks with a scale each)");
  flags.add_parsed(
      "--round-sums", [this](const std::string& text) { rounded_sums = parse_rounded_sums(text); },
      "round sums that stay in f32 to two bytes after every addition, to see why: norms, loss, "
      "softmax (of attention), or several: norms,loss");
  flags.add_switch("--count-updates", counts_updates,
                   "count gradients by exponent and updates that are lost, for --metrics");
  flags.add_switch("--formats", formats, "print the number formats as a table, and train nothing");
  flags.add_switch(
      "--sum-drift", sum_drift,
      "print how sums of gradients in two bytes drift with the micro-batches, and train "
      "nothing");
}

void PrecisionOptions::validate(DType dtype) const {
  expect_dynamic_for(scale_start.has_value(), "--loss-scale-start");
  expect_dynamic_for(scale_window.has_value(), "--loss-scale-window");
  if (is_mixed() && dtype != DType::kF32) {
    refuse("--dtype f64", recipe,
           "f64 is for comparing computations, in one type. Leave one of the two out.");
  }
  if (!is_mixed()) {
    if (master_weights) {
      refuse("--master-weights", recipe, "weights are f32 already. Add --precision bf16 or fp16.");
    }
    if (grad_dtype && *grad_dtype != DType::kF32) {
      refuse("--grad-dtype " + word_of(kGradients, *grad_dtype), recipe,
             "its gradients are f32. Add --precision bf16.");
    }
  }
  if (grad_dtype == DType::kF16 && recipe != Recipe::kFp16) {
    refuse("--grad-dtype f16", recipe, "only fp16 has such numbers. Use f32 or bf16.");
  }
  if (grad_dtype == DType::kBF16 && recipe == Recipe::kFp16) {
    refuse("--grad-dtype bf16", recipe, "it has no such numbers. Use f32 or f16.");
  }
  if (fp8_scaling && recipe != Recipe::kFp8) {
    refuse("--fp8-recipe", recipe, "nothing is in fp8. Add --precision fp8.");
  }
  if (recipe == Recipe::kBf16Pure && master_weights == true) {
    refuse("--master-weights on", recipe,
           "it is bf16 without them. Use --precision bf16 --grad-dtype bf16.");
  }
  if (rounded_sums.any() && !is_mixed()) {
    refuse("--round-sums", recipe, "its numbers have no two bytes. Add --precision bf16 or fp16.");
  }
  const bool bf16_alone =
      is_mixed() && types().parameters == DType::kBF16 && !types().has_master_weights();
  if (rounding == Rounding::kStochastic && !bf16_alone) {
    refuse("--rounding stochastic", recipe,
           "only weights in bf16 without master weights are rounded in each step. Use --precision "
           "bf16-pure, or --master-weights off.");
  }
}

void PrecisionOptions::expect_dynamic_for(bool given, std::string_view flag) const {
  if (!given || scaling() == LossScaling::kDynamic) return;
  throw ConfigError(fmt::format(
      "{0} has no meaning without --loss-scale dynamic: no scale moves. Add --loss-scale "
      "dynamic, or leave {0} out.",
      flag));
}

nn::Precision PrecisionOptions::types() const {
  const DType half = recipe == Recipe::kFp16 ? DType::kF16 : DType::kBF16;
  const bool pure = recipe == Recipe::kBf16Pure;
  nn::Precision types(half);
  types.gradients = grad_dtype.value_or(pure ? half : DType::kF32);
  types.optimizer = master_weights.value_or(!pure) ? DType::kF32 : half;
  return types;
}

LossScaling PrecisionOptions::scaling() const {
  return loss_scaling.value_or(recipe == Recipe::kFp16 ? LossScaling::kDynamic
                                                       : LossScaling::kNone);
}

LossScaleRule PrecisionOptions::scale_rule() const {
  LossScaleRule rule;
  rule.initial = scale_start.value_or(rule.initial);
  rule.growth_interval = scale_window.value_or(rule.growth_interval);
  return rule;
}

Fp8Recipe PrecisionOptions::fp8() const {
  Fp8Recipe chosen;
  chosen.scaling = fp8_scaling.value_or(Scaling::kDelayed);
  return chosen;
}

train::ExtraConfig PrecisionOptions::config() const {
  train::ExtraConfig config{{"precision", std::string(to_string(recipe))},
                            {"optimizer_state", word_of(kMoments, moments)}};
  if (!is_mixed()) return config;
  const nn::Precision kept = types();
  config.emplace_back("master_weights", std::string(kept.has_master_weights() ? "on" : "off"));
  config.emplace_back("grad_dtype", std::string(to_string(kept.gradients)));
  config.emplace_back("rounding", word_of(kRoundings, rounding));
  if (rounded_sums.any()) config.emplace_back("round_sums", rounded_sums.str());
  if (recipe == Recipe::kFp8)
    config.emplace_back("fp8_recipe", word_of(kFp8Recipes, fp8().scaling));
  switch (scaling()) {
    case LossScaling::kNone:
      config.emplace_back("loss_scale", std::string("none"));
      break;
    case LossScaling::kDynamic:
      config.emplace_back("loss_scale", std::string("dynamic"));
      break;
    case LossScaling::kConstant:
      config.emplace_back("loss_scale", constant_scale);
      break;
  }
  return config;
}

}  // namespace ultra::mixed_precision
