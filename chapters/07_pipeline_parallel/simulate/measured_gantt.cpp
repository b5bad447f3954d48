#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr const char* kAdvice = "Let a run write it: --pp 4 --executed-gantt FILE.";

/// A value as a message shows it.
std::string shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_number()) return fmt::format("{:g}", value.get<double>());
  return in_quotes(value.dump(-1, JsonLetters::kAscii));
}

PartCost cost_of(double forward, double backward, double input, double weight) {
  const bool is_split = input > 0 || weight > 0;
  return {.forward = forward,
          .backward_input = is_split ? input : backward / 2,
          .backward_weight = is_split ? weight : backward / 2,
          .saved_bytes = 1,
          .saved_bytes_after_b = 1};
}

/// Reads the file, and says in words what is wrong with it.
class Reader {
 public:
  Reader(const Json& gantt, const std::string& path) : gantt_(gantt), path_(path) {}

  CostModel read() const {
    expect_seconds();
    const std::vector<double> forward = seconds("F");
    const std::vector<double> backward = seconds("BW");
    const std::vector<double> input = seconds("B");
    const std::vector<double> weight = seconds("W");
    const std::vector<double> update = seconds("U");
    for (const auto* list : {&backward, &input, &weight, &update}) {
      if (list->size() != forward.size()) refuse(lengths());
    }
    expect_parts(forward.size());
    CostModel model;
    for (std::size_t part = 0; part < forward.size(); ++part) {
      model.parts.push_back(cost_of(forward[part], backward[part], input[part], weight[part]));
      if (model.parts.back().together() < kLeastSeconds) {
        refuse(
            fmt::format("number {} of \"F\", \"BW\", \"B\" and \"W\" are {} together. They must "
                        "be {} at least",
                        part + 1, model.parts.back().together(), kLeastSeconds));
      }
      model.update = std::max(model.update, update[part]);
    }
    return model;
  }

 private:
  /// In seconds; the bounds that the flags of times have.
  static constexpr double kLeastSeconds = 1e-9;
  static constexpr double kMostSeconds = 1e9;

  void expect_seconds() const {
    const Json* unit = gantt_.find("unit");
    if (unit != nullptr && *unit != "s") refuse("its \"unit\" is not \"s\", for seconds");
  }

  /// The stages, and the parts of each, of a file that says so.
  void expect_parts(std::size_t parts) const {
    const Json* stages = gantt_.find("stages");
    const Json* chunks = gantt_.find("chunks");
    if (stages == nullptr || chunks == nullptr) return;
    const bool are_counts = stages->is_whole() && chunks->is_whole();
    // Neither is larger than what it divides, so that no product overflows.
    if (are_counts && stages->get<std::size_t>() > 0 && chunks->get<std::size_t>() > 0 &&
        parts % stages->get<std::size_t>() == 0 &&
        parts / stages->get<std::size_t>() == chunks->get<std::size_t>()) {
      return;
    }
    refuse(fmt::format("it has times of {} parts, and its \"stages\" and \"chunks\" say otherwise",
                       parts));
  }

  [[nodiscard]] const Json& list(const char* name) const {
    const Json& costs = gantt_.at("costs");
    const Json* found = costs.find(name);
    if (found == nullptr) refuse(fmt::format("its \"costs\" lack \"{}\"", name));
    if (!found->is_array() || found->empty()) {
      refuse(fmt::format("its \"{}\" is no list of seconds, one for each part", name));
    }
    return *found;
  }

  [[nodiscard]] std::vector<double> seconds(const char* name) const {
    std::vector<double> all;
    for (const Json& value : list(name).elements()) {
      const bool is_right =
          value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMostSeconds;
      if (!is_right) {
        refuse(fmt::format("number {} of its \"{}\" is {}. It must be a number from 0 to {:g}",
                           all.size() + 1, name, shown(value), kMostSeconds));
      }
      all.push_back(value.get<double>());
    }
    return all;
  }

  [[nodiscard]] std::string lengths() const {
    std::string text = "each of its lists must have a number for each part, and ";
    for (const char* name : {"F", "BW", "B", "W", "U"}) {
      text += fmt::format("{}\"{}\" has {}", *name == 'F' ? "" : ", ", name, list(name).size());
    }
    return text;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(fmt::format("{}: {}. {}", in_quotes(path_), why, kAdvice));
  }

  const Json& gantt_;
  const std::string& path_;
};

}  // namespace

CostModel costs_of_gantt(const std::string& gantt, const std::string& path) {
  Json parsed;
  try {
    parsed = Json::parse(gantt);
  } catch (const JsonError&) {
    // Nor has this costs.
  }
  const Json* costs = parsed.find("costs");
  if (costs != nullptr && costs->is_object()) return Reader(parsed, path).read();
  throw ConfigError(
      fmt::format("{} has no costs of a pipeline's parts. {}", in_quotes(path), kAdvice));
}

}  // namespace ultra::pipeline_parallel
