// A pipeline's schedule on a cost model: chapter 07's `--pp-table P --pp-table-gantt FILE`.
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/gantt.hpp"
#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "tools/site/figures/figure.hpp"

namespace ultra::site {
namespace {

/// Passes that a page can draw.
constexpr std::size_t kMostPasses = 4096;

pipeline_parallel::ModelCosts costs_of(const Json& question) {
  const auto number = [&](const char* name, double otherwise) {
    return value_of<double>(question, name, otherwise);
  };
  return {.stage = {.forward = number("forward", 1),
                    .backward_input = number("backward_input", 1),
                    .backward_weight = number("backward_weight", 1),
                    .saved_bytes = 1,
                    .saved_bytes_after_b = number("kept_after_b", 1)},
          .embedding = number("embedding", 0),
          .head = number("head", 0),
          .overlapped = number("overlapped", 1),
          .link = {.latency = number("latency", 0), .seconds_per_byte = number("message", 0)},
          .message_bytes = 1};
}

Json menu() {
  Json names = Json::array();
  for (const auto& choice : pipeline_parallel::all_schedules()) names.push_back(choice.str());
  return {{"schedules", std::move(names)}};
}

}  // namespace

Json answer(const Json& question) {
  using namespace pipeline_parallel;
  if (value_of<bool>(question, "menu", false)) return menu();
  const ScheduleChoice choice =
      parse_schedule_choice(value_of<std::string>(question, "schedule", "1f1b"));
  const auto stages = value_of<std::size_t>(question, "stages", 4);
  const auto micro_batches = value_of<std::size_t>(question, "micro_batches", 8);
  if (stages < 1 || micro_batches < 1 || stages * micro_batches * choice.chunks() > kMostPasses) {
    throw ConfigError(fmt::format(
        "{} stages, {} micro-batches and {} chunks per rank: this figure draws 1 to {} passes.",
        stages, micro_batches, choice.chunks(), kMostPasses));
  }
  expect_possible(choice, stages, micro_batches);
  const PipelineSchedule schedule = make_schedule(choice, stages, micro_batches);
  const SimulatedStep step = simulate(schedule, costs_of(question).on(schedule.placement));
  Json found = Json::parse(gantt_json(schedule, step));
  found["ideal_seconds"] = step.ideal();
  found["span_seconds"] = step.longest_span();
  return found;
}

}  // namespace ultra::site
