#pragma once
/// @file
/// What a whole training takes: days, GPU hours and money, with what failures cost.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/time/prediction.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief A training of so many tokens.
struct TrainingCost {
  double days = 0;  ///< if nothing fails
  double real_days =
      0;  ///< with checkpoints, and with what failures undo: days over goodput().kept
  double gpu_hours = 0;  ///< of real_days
  double dollars = 0;    ///< of gpu_hours
};

/// @brief The cost of a training with a layout.
/// @param tokens   of the whole training.
/// @param dollars  for an hour of a GPU.
[[nodiscard]] TrainingCost training_cost(const Question& question, const Prediction& prediction,
                                         double tokens, double dollars);

/// @brief The costs of a plan's layouts, a line each.
/// @param dollars  0: no money is shown.
[[nodiscard]] std::string costs_to_text(const Question& question,
                                        const std::vector<Prediction>& best, double tokens,
                                        double dollars);
/// @brief The same: [{"days", "real_days", "gpu_hours", "dollars"}].
[[nodiscard]] Json costs_to_json(const Question& question, const std::vector<Prediction>& best,
                                 double tokens, double dollars);

}  // namespace ultra::planner
