#pragma once
/// @file
/// The command-line options of mixed precision.

#include <cstddef>
#include <optional>
#include <string>

#include "chapters/10_mixed_precision/fp8/fp8_recipe.hpp"
#include "chapters/10_mixed_precision/loss_scaler.hpp"
#include "chapters/10_mixed_precision/training/rounded_sums.hpp"
#include "chapters/10_mixed_precision/training/weight_steps.hpp"
#include "common/nn/precision.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::mixed_precision {

/// @brief In which types a training keeps its numbers: the recipes that have names.
enum class Recipe {
  kFp32,      ///< everything as --dtype says
  kBf16,      ///< weights and activations bf16; the optimizer's weights f32
  kBf16Pure,  ///< the same without f32 weights, and gradients in bf16
  kFp16,      ///< weights and activations f16; the optimizer's weights f32, a scaled loss
  kFp8        ///< as kBf16, and the products of linear layers in fp8
};

/// @brief Whether the loss is multiplied by something.
enum class LossScaling { kDynamic, kNone, kConstant };

/// @brief In which form the optimizer keeps its moments.
enum class MomentFormat { kF32, kBf16, kInt8 };

/// @brief Types, recipes, and what is counted.
struct PrecisionOptions {
  Recipe recipe = Recipe::kFp32;              ///< --precision
  bool recipe_given = false;                  ///< whether the command line has it
  std::optional<bool> master_weights;         ///< --master-weights; absent: by the recipe
  std::optional<DType> grad_dtype;            ///< --grad-dtype; absent: by the recipe
  std::optional<LossScaling> loss_scaling;    ///< --loss-scale; absent: by the recipe
  double constant_scale = 0;                  ///< --loss-scale N
  std::optional<double> scale_start;          ///< --loss-scale-start; absent: the rule's
  std::optional<std::size_t> scale_window;    ///< --loss-scale-window; absent: the rule's
  std::optional<Scaling> fp8_scaling;         ///< --fp8-recipe; absent: delayed
  Rounding rounding = Rounding::kNearest;     ///< --rounding
  MomentFormat moments = MomentFormat::kF32;  ///< --optimizer-state
  RoundedSums rounded_sums;                   ///< --round-sums
  bool counts_updates = false;                ///< --count-updates
  bool formats = false;                       ///< --formats: only print the table
  bool sum_drift = false;                     ///< --sum-drift: only print that table

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @param dtype  --dtype.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate(DType dtype) const;

  /// @brief Whether weights, gradients or activations are in fewer bits than --dtype.
  [[nodiscard]] bool is_mixed() const { return recipe != Recipe::kFp32; }
  /// @brief The types of a training that is_mixed().
  [[nodiscard]] nn::Precision types() const;
  /// @brief Whether and how the loss is scaled.
  [[nodiscard]] LossScaling scaling() const;
  /// @brief How the dynamic scale moves.
  [[nodiscard]] LossScaleRule scale_rule() const;
  /// @brief How numbers are put into fp8; only of Recipe::kFp8.
  [[nodiscard]] Fp8Recipe fp8() const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

 private:
  /// @brief Refuses a flag of a scale that moves where none does.
  void expect_dynamic_for(bool given, std::string_view flag) const;
};

/// @brief "fp32", "bf16", "bf16-pure", "fp16" or "fp8".
[[nodiscard]] std::string_view to_string(Recipe recipe);

}  // namespace ultra::mixed_precision
