#include "chapters/11_five_d/planner/choose_layout.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "chapters/11_five_d/planner/fit.hpp"
#include "common/base/errors.hpp"

namespace ultra::planner {

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
    const double speed =
        predict(question, layouts[i]).tokens_per_second / static_cast<double>(layouts[i].gpus());
    if (best && speed <= most) continue;
    best = i;
    most = speed;
  }
  if (best) return *best;
  throw ConfigError(
      fmt::format("None of {} layouts can train this model.{}", layouts.size(), refused));
}
// [/region]

}  // namespace ultra::planner
