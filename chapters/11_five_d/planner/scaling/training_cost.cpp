#include "chapters/11_five_d/planner/scaling/training_cost.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "chapters/11_five_d/planner/scaling/scaling_curves.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

std::string whole(double number) {
  return format_count(static_cast<std::uint64_t>(std::llround(number)));
}

}  // namespace

TrainingCost training_cost(const Question& question, const Prediction& prediction, double tokens,
                           double dollars) {
  constexpr double kSecondsADay = 86400;
  constexpr double kHoursADay = 24;
  const std::size_t gpus = prediction.layout.gpus();
  TrainingCost cost{.days = tokens / prediction.tokens_per_second / kSecondsADay};
  cost.real_days = cost.days / goodput(question, gpus).kept;
  cost.gpu_hours = cost.real_days * kHoursADay * static_cast<double>(gpus);
  cost.dollars = cost.gpu_hours * dollars;
  return cost;
}

std::string costs_to_text(const Question& question, const std::vector<Prediction>& best,
                          double tokens, double dollars) {
  std::string text = fmt::format(
      "\n  A training of {:.3g} tokens: {:.1f} % of the time is kept of checkpoints and failures\n"
      "  {:>2}  {:>9}  {:>9}  {:>13}{}\n",
      tokens, 100 * goodput(question, best.front().layout.gpus()).kept, "", "days", "with them",
      "GPU hours", dollars > 0 ? fmt::format("  {:>13}", "dollars") : "");
  for (std::size_t i = 0; i < best.size(); ++i) {
    const TrainingCost cost = training_cost(question, best[i], tokens, dollars);
    text += fmt::format("  {:>2}  {:>9.1f}  {:>9.1f}  {:>13}{}\n", i + 1, cost.days, cost.real_days,
                        whole(cost.gpu_hours),
                        dollars > 0 ? fmt::format("  {:>13}", whole(cost.dollars)) : "");
  }
  return text;
}

Json costs_to_json(const Question& question, const std::vector<Prediction>& best, double tokens,
                   double dollars) {
  Json rows = Json::array();
  for (const Prediction& one : best) {
    const TrainingCost cost = training_cost(question, one, tokens, dollars);
    Json row = {{"days", cost.days}, {"real_days", cost.real_days}, {"gpu_hours", cost.gpu_hours}};
    if (dollars > 0) row["dollars"] = cost.dollars;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ultra::planner
