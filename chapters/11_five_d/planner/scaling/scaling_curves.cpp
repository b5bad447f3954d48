#include "chapters/11_five_d/planner/scaling/scaling_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "chapters/11_five_d/planner/report/plan_report.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

double tokens_per_gpu(const Prediction& prediction) {
  return prediction.tokens_per_second / real(prediction.layout.gpus());
}

std::string_view first_loss_of(const ScalingStep& step) {
  const TimeShare loss = bottleneck(*step.best);
  const double failures = (1 - step.failures.kept) * step.best->step.total();
  return failures > loss.seconds ? "failures" : loss.what;
}

/// A cell of the heat map: the fastest that fits, or the smallest.
struct Cell {
  std::optional<Prediction> fastest;
  double least_bytes = std::numeric_limits<double>::infinity();
};

Json cell_to_json(std::pair<std::size_t, std::size_t> place, const Cell& cell) {
  Json json = {{"tp", place.first}, {"pp", place.second}};
  if (!cell.fastest) {
    json["memory_gb"] = cell.least_bytes / kGB;
    return json;
  }
  json.update(prediction_to_json(*cell.fastest));
  return json;
}

std::string whole(double number) {
  return format_count(static_cast<std::uint64_t>(std::llround(number)));
}

}  // namespace

Goodput goodput(const Question& question, std::size_t gpus) {
  const replay::Cluster& cluster = question.cluster;
  constexpr double kHour = 3600;
  constexpr double kSavedBytes = 4 + 8;  // master weights and two moments
  const double nodes = std::ceil(real(gpus) / cluster.gpus_per_node);
  Goodput result;
  result.checkpoint_seconds =
      kSavedBytes * parameters_of(question.work.model) / (cluster.checkpoint_bandwidth * nodes);
  result.failure_seconds = cluster.mean_hours_to_failure * kHour / real(gpus);
  result.interval_seconds = std::sqrt(2 * result.checkpoint_seconds * result.failure_seconds);
  const double lost = result.checkpoint_seconds / result.interval_seconds +
                      result.interval_seconds / (2 * result.failure_seconds) +
                      cluster.restart_seconds / result.failure_seconds;
  result.kept = std::max(0.0, 1 - lost);
  return result;
}

std::vector<ScalingStep> scaling_curve(const Question& question, const SearchSpace& space,
                                       ScalingKind kind, const std::vector<std::size_t>& gpus) {
  std::vector<ScalingStep> curve;
  std::optional<double> first;
  for (const std::size_t count : gpus) {
    Question here = question;
    if (kind == ScalingKind::kWeak) here.work.global_batch *= count / gpus.front();
    SearchSpace there = space;
    there.gpus = count;
    SearchResult found = search_layouts(here, there, 1);
    ScalingStep step{.gpus = count,
                     .global_batch = here.work.global_batch,
                     .best = {},
                     .failures = goodput(here, count),
                     .first_loss = "memory"};
    if (!found.best.empty()) {
      step.best = std::move(found.best.front());
      if (!first) first = tokens_per_gpu(*step.best);
      step.efficiency = tokens_per_gpu(*step.best) / *first;
      step.first_loss = first_loss_of(step);
    }
    curve.push_back(std::move(step));
  }
  return curve;
}

Json curve_to_json(const std::vector<ScalingStep>& curve) {
  Json steps = Json::array();
  for (const ScalingStep& step : curve) {
    Json json = {{"gpus", step.gpus},
                 {"global_batch", step.global_batch},
                 {"fits", step.best.has_value()},
                 {"first_loss", step.first_loss},
                 {"goodput",
                  {{"kept", step.failures.kept},
                   {"checkpoint_seconds", step.failures.checkpoint_seconds},
                   {"interval_seconds", step.failures.interval_seconds},
                   {"failure_seconds", step.failures.failure_seconds}}}};
    if (step.best) {
      json["efficiency"] = step.efficiency;
      json["best"] = prediction_to_json(*step.best);
    }
    steps.push_back(json);
  }
  return steps;
}

Json heat_map(const Question& question, const SearchSpace& space) {
  std::map<std::pair<std::size_t, std::size_t>, Cell> cells;
  for_each_layout(question.work, space, [&](const Layout& layout) {
    Cell& cell = cells[{layout.tp, layout.pp}];
    const double bytes = largest_stage(question, layout).total();
    cell.least_bytes = std::min(cell.least_bytes, bytes);
    if (bytes > question.cluster.gpu.memory_bytes) return;
    Prediction prediction = predict(question, layout);
    if (cell.fastest && cell.fastest->step.total() <= prediction.step.total()) return;
    cell.fastest = std::move(prediction);
  });
  Json list = Json::array();
  for (const auto& [place, cell] : cells) list.push_back(cell_to_json(place, cell));
  return {{"gpus", space.gpus}, {"cells", list}};
}

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
