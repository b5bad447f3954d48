#pragma once
/// @file
/// How weights change in a step, by the types that a training keeps: with master weights, or rounded
/// to two bytes each time.

#include <cstdint>
#include <memory>

#include "chapters/10_mixed_precision/recipe/update_figures.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::mixed_precision {

/// @brief How a number becomes one of fewer bits.
enum class Rounding {
  kNearest,    ///< the nearest, ties to even
  kStochastic  ///< one of the two neighbours by chance, right on average
};

/// @brief What decides how weights of two bytes change.
struct WeightStepRule {
  Rounding rounding = Rounding::kNearest;  ///< of weights without master weights
  std::uint64_t seed = 1;                  ///< of stochastic rounding
  std::shared_ptr<UpdateFigures> figures;  ///< what is counted meanwhile; null: nothing
};

/// @brief The weight steps of a training.
///
/// Stochastic rounding takes its chance from the seed, the parameter, the step and the element's place
/// in the whole weight: it does not depend on the layout.
[[nodiscard]] train::MakeWeightStep weight_steps(const WeightStepRule& rule);

}  // namespace ultra::mixed_precision
