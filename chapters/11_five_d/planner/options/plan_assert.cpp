#include "chapters/11_five_d/planner/options/plan_assert.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "chapters/11_five_d/planner/scaling/training_cost.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::planner {
namespace {

using Values = std::vector<std::pair<std::string_view, double>>;

Values values_of(const Question& question, const Prediction& first,
                 const AssertedTraining& training) {
  Values values = {{"seconds", first.step.total()},
                   {"mfu", 100 * first.mfu},
                   {"memory_gb", first.memory.total() / 1e9},
                   {"tokens_per_second", first.tokens_per_second}};
  if (training.tokens == 0) return values;
  const TrainingCost cost = training_cost(question, first, training.tokens, training.price);
  values.emplace_back("days", cost.real_days);
  values.emplace_back("gpu_hours", cost.gpu_hours);
  if (training.price > 0) values.emplace_back("dollars", cost.dollars);
  return values;
}

bool holds(double value, std::string_view comparison, double limit) {
  if (comparison == "<") return value < limit;
  if (comparison == "<=") return value <= limit;
  if (comparison == ">") return value > limit;
  return value >= limit;
}

struct Comparison {
  std::string_view name;
  std::string_view how;
  double limit = 0;
};

/// "seconds<14" in its three parts.
Comparison comparison_of(std::string_view text) {
  const std::size_t at = text.find_first_of("<>");
  if (at != std::string_view::npos) {
    const std::size_t width = text.substr(at + 1).starts_with('=') ? 2 : 1;
    const auto limit = parse_number<double>(std::string(text.substr(at + width)));
    if (limit) return {text.substr(0, at), text.substr(at, width), *limit};
  }
  throw ConfigError(
      fmt::format("--plan-assert: {} is no comparison with a number. Write for example seconds<14.",
                  in_quotes(std::string(text))));
}

}  // namespace

void expect_as_asserted(const std::string& text, const Question& question,
                        const SearchResult& result, const AssertedTraining& training) {
  if (text.empty()) return;
  std::vector<Comparison> all;
  for (const std::string_view one : split(text, ',')) all.push_back(comparison_of(one));
  if (result.best.empty()) throw NotAsAsserted("--plan-assert: no layout fits");
  const Prediction& first = result.best.front();
  const Values values = values_of(question, first, training);
  for (const Comparison& one : all) {
    const auto value = std::ranges::find(values, one.name, &Values::value_type::first);
    if (value == values.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, number] : values) names.push_back(name);
      throw ConfigError(fmt::format(
          "--plan-assert: {} is not known of a plan. Known are {}; with --plan-tokens days and "
          "gpu_hours, with --plan-price dollars too.",
          in_quotes(std::string(one.name)), fmt::join(names, ", ")));
    }
    if (holds(value->second, one.how, one.limit)) continue;
    throw NotAsAsserted(fmt::format("--plan-assert {}{}{:g}: it is {:.4g} for the fastest, {}",
                                    one.name, one.how, one.limit, value->second,
                                    first.layout.str()));
  }
}

}  // namespace ultra::planner
