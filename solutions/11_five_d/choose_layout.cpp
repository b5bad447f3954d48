#include "chapters/11_five_d/planner/choose_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/fit.hpp"
#include "common/base/errors.hpp"

namespace ultra::planner {
namespace {

double speed_per_gpu(const Question& question, const Layout& layout) {
  return predict(question, layout).tokens_per_second / static_cast<double>(layout.gpus());
}

}  // namespace

// [region choose]
std::size_t choose_layout(const Question& question, std::span<const Layout> layouts) {
  std::optional<std::size_t> best;
  double most = 0;
  std::string refused;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (const auto problem = why_impossible(question.work, layouts[i])) {
      refused += fmt::format(" {}: {}.", layouts[i].str(), *problem);
      continue;
    }
    const Fit judged = fit(question, layouts[i]);
    if (!judged.fits) {
      refused += fmt::format(" {}: {}", layouts[i].str(), describe(judged, question));
      continue;
    }
    const double speed = speed_per_gpu(question, layouts[i]);
    if (best && speed <= most) continue;
    best = i;
    most = speed;
  }
  if (best) return *best;
  throw ConfigError(
      fmt::format("None of {} layouts can train this model.{}", layouts.size(), refused));
}
// [/region]

// [region choose_for_all]
std::size_t choose_for_all(std::span<const Question> days, std::span<const Layout> layouts) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> greatest_loss(layouts.size(), 0);
  for (const Question& day : days) {
    const double best = speed_per_gpu(day, layouts[choose_layout(day, layouts)]);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const bool can_be = !why_impossible(day.work, layouts[i]) && fit(day, layouts[i]).fits;
      const double loss = can_be ? 1 - speed_per_gpu(day, layouts[i]) / best : kNever;
      greatest_loss[i] = std::max(greatest_loss[i], loss);
    }
  }
  const auto least = std::ranges::min_element(greatest_loss);
  if (*least < kNever) return static_cast<std::size_t>(least - greatest_loss.begin());
  throw ConfigError(
      fmt::format("Each of {} layouts is impossible or too large on one of the {} "
                  "clusters: take one that fits on all, or plan for each.",
                  layouts.size(), days.size()));
}
// [/region]

}  // namespace ultra::planner
