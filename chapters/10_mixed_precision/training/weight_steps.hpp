#pragma once
/// @file
/// How weights change in a step, by the types that a training keeps: with master weights, or rounded
/// to two bytes each time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/tensor/tensor.hpp"
#include "common/train/gradients/model_states.hpp"
#include "common/train/step.hpp"

namespace ultra::mixed_precision {

/// The binary exponents of a histogram: all that f16 has, and what lies below.
inline constexpr int kLowestExponent = -60;
/// @copybrief kLowestExponent
inline constexpr int kHighestExponent = 20;

/// @brief Counts of a step, over the elements that a rank updates.
///
/// Figures of the metrics, each step, summed over the ranks (elements that several ranks update count
/// several times):
/// - "gradient_exponents": how many gradients lie in [2^e, 2^(e+1)), from kLowestExponent on to
///   kHighestExponent; those beyond an end are in the end's count;
/// - "zero_gradients": the share of gradients that are zero;
/// - "lost_updates": of the weights of two bytes that an update should have changed, the share that
///   stayed what they were.
class UpdateFigures {
 public:
  /// @brief Counts a gradient's elements.
  void count_gradient(const Tensor& gradient);
  /// @brief Counts an update.
  /// @param before  [n] weights of two bytes before it.
  /// @param wide    [n] of f32, what they should become.
  /// @param after   [n] what they became.
  void count_update(const Tensor& before, const Tensor& wide, const Tensor& after);
  /// @brief All counts since this was last called, in one list: the same places on every rank.
  [[nodiscard]] std::vector<double> take();

 private:
  std::vector<double> exponents_ =
      std::vector<double>(static_cast<std::size_t>(kHighestExponent - kLowestExponent + 1), 0.0);
  double gradients_ = 0;
  double zeros_ = 0;
  double updates_ = 0;
  double lost_ = 0;
};

/// @brief Puts the figures of each step into the metrics. Its step_ends() is collective.
/// Cost: an all-reduce of about 90 numbers of f64 per step.
[[nodiscard]] train::MakeObserver note_figures(std::shared_ptr<UpdateFigures> figures);

/// @brief How a number becomes one of fewer bits.
enum class Rounding {
  kNearest,    ///< the nearest, ties to even
  kStochastic  ///< one of the two neighbours by chance, right on average
};

/// @brief What decides how weights of two bytes change.
struct WeightRuleSettings {
  Rounding rounding = Rounding::kNearest;  ///< of weights without master weights
  std::uint64_t seed = 1;                  ///< of stochastic rounding
  std::shared_ptr<UpdateFigures> figures;  ///< what is counted meanwhile; null: nothing
};

/// @brief Puts what changes the weights of a training around its optimizer's rule.
///
/// Stochastic rounding takes its chance from the seed, the parameter, the step and the element's place
/// in the whole weight: it does not depend on the layout.
[[nodiscard]] train::WrapRule weight_rule(const WeightRuleSettings& settings);

}  // namespace ultra::mixed_precision
