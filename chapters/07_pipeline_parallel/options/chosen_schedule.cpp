#include "chapters/07_pipeline_parallel/options/chosen_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"
#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "chapters/07_pipeline_parallel/search/search.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Parts that a rank can have: each has a layer at least.
std::size_t most_chunks(const PipelineOptions& options, const nn::ModelConfig& model) {
  const StageSplit& split = options.split;
  const std::size_t parts =
      split.rule == StageSplit::Rule::kGiven ? split.layers.size() : model.num_layers;
  return std::clamp<std::size_t>(parts / options.pp, 1, SearchQuestion{}.most_chunks);
}

PipelineSchedule searched(const PipelineOptions& options, const nn::ModelConfig& model,
                          std::size_t micro_batches) {
  const PieceCosts pieces = operations_of(model);
  const double stage =
      pieces.block * static_cast<double>(model.num_layers) / static_cast<double>(options.pp);
  SearchQuestion question{.costs = {.head = pieces.head / stage},
                          .stages = options.pp,
                          .micro_batches = micro_batches,
                          .most_chunks = most_chunks(options, model)};
  if (options.search_activations) {
    question.most_bytes = static_cast<double>(*options.search_activations);
  }
  return search_schedule(question).schedule;
}

PipelineSchedule from_file(const PipelineOptions& options, std::size_t micro_batches) {
  PipelineSchedule schedule = schedule_from_file("--schedule-file", options.schedule_file);
  if (schedule.stages() != options.pp) {
    throw ConfigError(
        fmt::format("--schedule-file {} has lines for {} stages, but --pp is {}. "
                    "Change one of the two.",
                    in_quotes(options.schedule_file), schedule.stages(), options.pp));
  }
  if (schedule.micro_batches != micro_batches) {
    throw ConfigError(
        fmt::format("--schedule-file {} has {} micro-batches, but a replica has {}. "
                    "Give --micro-batches {}, or write another file.",
                    in_quotes(options.schedule_file), schedule.micro_batches, micro_batches,
                    schedule.micro_batches));
  }
  return schedule;
}

}  // namespace

PipelineSchedule chosen_schedule(const PipelineOptions& options, const nn::ModelConfig& model,
                                 std::size_t micro_batches) {
  if (!options.schedule_file.empty()) return from_file(options, micro_batches);
  if (options.searches) return searched(options, model, micro_batches);
  PipelineSchedule schedule = make_schedule(options.schedule, options.pp, micro_batches);
  expect_valid(schedule);
  return schedule;
}

}  // namespace ultra::pipeline_parallel
