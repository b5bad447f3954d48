#include "chapters/11_five_d/planner/step_time.hpp"

#include <algorithm>

#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

namespace ultra::planner {
namespace {

double real(std::size_t value) { return static_cast<double>(value); }

/// A chunk of the average stage.
pipeline_parallel::PartCost average_chunk(const StepParts& parts) {
  const double share = 1 / (real(parts.stages.size()) * real(parts.schedule.chunks()));
  pipeline_parallel::PartCost chunk{.forward = 0, .backward_input = 0, .backward_weight = 0};
  for (const StageSeconds& stage : parts.stages) {
    chunk.forward += share * stage.forward;
    chunk.backward_input += share * (stage.backward - stage.weight_gradients);
    chunk.backward_weight += share * stage.weight_gradients;
  }
  return chunk;
}

double message_seconds(const StepParts& parts) {
  const double hops = real(parts.stages.size() - 1);
  if (hops == 0) return 0;
  const double fill = 2 * hops * parts.message;
  const double steady =
      2 * real(parts.micro_batches - 1) * real(parts.schedule.chunks()) * parts.message;
  return parts.hides_messages ? fill : fill + steady;
}

/// What passes of `pass` seconds leave of an exchange.
double left(const StepParts& parts, double exchange, double pass) {
  const double chunks = real(parts.schedule.chunks());
  if (chunks == 1) return std::max(0.0, exchange - pass);
  const double of_last_chunk = (exchange - pass) / chunks;
  const double others = real(parts.stages.size()) * pass * (chunks - 1) / chunks;
  return std::max({0.0, of_last_chunk, exchange - others});
}

double data_seconds(const StepParts& parts, const StageSeconds& slowest) {
  const double m = real(parts.micro_batches);
  const DataSeconds& data = parts.data;
  if (!parts.hides_data) return data.gradients + data.parameters + m * data.each_micro_batch;
  return left(parts, data.gradients, slowest.backward) +
         left(parts, data.parameters, slowest.forward) +
         m * std::max(0.0, data.each_micro_batch - slowest.together());
}

}  // namespace

// [region step]
StepSeconds step_seconds(const StepParts& parts) {
  const StageSeconds& slowest =
      *std::ranges::max_element(parts.stages, {}, &StageSeconds::together);
  StepSeconds step;
  step.passes = real(parts.micro_batches) * slowest.together();
  step.bubble =
      std::max(0.0, pipeline_parallel::bubble_seconds(
                        parts.schedule,
                        {.stages = parts.stages.size(), .micro_batches = parts.micro_batches},
                        average_chunk(parts)));
  step.messages = message_seconds(parts);
  step.data = data_seconds(parts, slowest);
  step.optimizer = parts.optimizer;
  step.stragglers = (parts.slowdown - 1) * step.total();
  return step;
}
// [/region]

}  // namespace ultra::planner
