#include "chapters/07_pipeline_parallel/simulate/measured_gantt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

PartCost cost_of(double forward, double backward, double input, double weight) {
  const bool is_split = input > 0 || weight > 0;
  return {.forward = forward,
          .backward_input = is_split ? input : backward / 2,
          .backward_weight = is_split ? weight : backward / 2,
          .saved_bytes = 1,
          .saved_bytes_after_b = 1};
}

}  // namespace

CostModel costs_of_gantt(const std::string& gantt, const std::string& path) {
  try {
    const auto costs = nlohmann::json::parse(gantt).at("costs");
    const auto seconds = [&](const char* name) {
      return costs.at(name).get<std::vector<double>>();
    };
    const auto forward = seconds("F");
    const auto backward = seconds("BW");
    const auto input = seconds("B");
    const auto weight = seconds("W");
    const auto update = seconds("U");
    CostModel model;
    for (std::size_t part = 0; part < forward.size(); ++part) {
      model.parts.push_back(
          cost_of(forward[part], backward.at(part), input.at(part), weight.at(part)));
      model.update = std::max(model.update, update.at(part));
    }
    if (!model.parts.empty()) return model;
  } catch (const std::exception&) {
    // What is wrong with a text that is no such file helps nobody.
  }
  throw ConfigError(fmt::format(
      "{} has no costs of a pipeline's parts. Let a run write it: --pp 4 --executed-gantt FILE.",
      in_quotes(path)));
}

}  // namespace ultra::pipeline_parallel
