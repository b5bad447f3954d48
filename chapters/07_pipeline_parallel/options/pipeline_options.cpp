#include "chapters/07_pipeline_parallel/options/pipeline_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"
#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "chapters/07_pipeline_parallel/search/search.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// No machine has longer pipelines.
constexpr std::size_t kMostStages = 4096;
/// More than anybody waits for in a step.
constexpr std::size_t kMostMicroBatches = 1'000'000;

std::size_t micro_batches_of(std::size_t share, std::size_t size) { return ceil_div(share, size); }

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

void PipelineOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "Pipeline parallel");
  flags.add("--pp", pp, "stages that the layers are cut into, a rank each", {1, kMostStages});
  flags.add_parsed(
      "--schedule",
      [this](const std::string& text) {
        searches = text == "search";
        if (!searches) schedule = parse_schedule_choice(text);
      },
      "order of the passes: " + schedule_names() + ", or search", schedule.str());
  flags.add("--search-activations", search_activations,
            "activations of a micro-batch in a stage that a rank may keep, with --schedule search "
            "[any number]",
            {1, kMostMicroBatches});
  flags.add("--schedule-file", schedule_file, "a schedule of your own: a line of passes per stage");
  flags.add("--micro-batches", micro_batches,
            "micro-batches of a step, in place of the size --micro-batch", {1, kMostMicroBatches});
  flags.add_parsed(
      "--stage-split", [this](const std::string& text) { split = parse_stage_split(text); },
      "layers of each part: balanced (by operations), measured (by seconds), or numbers with "
      "commas",
      split.str());
  flags.add("--executed-gantt", gantt,
            "write when each pass of the last step began and ended, as JSON");
  train::when_given(app, "--schedule", [this] { schedule_given_ = true; });
  train::when_given(app, "--stage-split", [this] { split_given_ = true; });
}

std::string PipelineOptions::schedule_name() const {
  if (!schedule_file.empty()) return schedule_file;
  return searches ? "search" : schedule.str();
}

std::string PipelineOptions::flags() const {
  return schedule_file.empty()
             ? fmt::format("--pp {} --schedule {}", pp, schedule_name())
             : fmt::format("--pp {} --schedule-file {}", pp, in_quotes(schedule_file));
}

void PipelineOptions::validate() const {
  if (schedule_given_ && !schedule_file.empty()) {
    throw ConfigError(
        "--schedule and --schedule-file both say in which order micro-batches pass. Leave one of "
        "the two out.");
  }
  if (search_activations && !searches) {
    throw ConfigError("--search-activations has no meaning without --schedule search.");
  }
  if (!has_schedule()) {
    const char* needless = split_given_     ? "--stage-split"
                           : !gantt.empty() ? "--executed-gantt"
                                            : nullptr;
    if (needless == nullptr) return;
    throw ConfigError(
        fmt::format("{} has no meaning without --pp or --schedule: the model is in one piece, and "
                    "micro-batches pass it one by one.",
                    needless));
  }
}

std::size_t micro_batch_size(std::size_t share, std::size_t micro_batches) {
  const std::size_t size = ceil_div(share, std::min(share, micro_batches));
  const std::size_t fewer = micro_batches_of(share, size);
  if (fewer == micro_batches) return size;
  if (micro_batches > share) {
    throw ConfigError(fmt::format(
        "--micro-batches {} are more than the {} sequences of a replica. Choose {} at most, or a "
        "larger --global-batch.",
        micro_batches, share, share));
  }
  throw ConfigError(fmt::format(
      "--micro-batches {}: {} sequences of a replica cannot be cut into so many equal pieces and a "
      "rest. Choose {} (of {} sequences) or {} (of {}).",
      micro_batches, share, fewer, size, micro_batches_of(share, size - 1), size - 1));
}

void PipelineOptions::cut_batch(train::TrainOptions& train, std::size_t replicas) const {
  if (!micro_batches) return;
  const std::size_t share = ceil_div(train.global_batch, replicas);
  if (gives_micro_batch) {
    const std::size_t given = micro_batches_of(share, train.micro_batch);
    if (given == *micro_batches) return;
    throw ConfigError(fmt::format(
        "--micro-batch {} cuts the {} sequences of a replica into {} micro-batches, but "
        "--micro-batches is {}. Leave one of the two out.",
        train.micro_batch, share, given, *micro_batches));
  }
  train.micro_batch = micro_batch_size(share, *micro_batches);
  if (train.global_batch % train.micro_batch == 0) return;
  throw ConfigError(fmt::format(
      "--micro-batches {} makes micro-batches of {} sequences, which do not divide --global-batch: "
      "{} % {} = {}. Choose another of the two.",
      *micro_batches, train.micro_batch, train.global_batch, train.micro_batch,
      train.global_batch % train.micro_batch));
}

train::ExtraConfig PipelineOptions::config() const {
  return {{"pp", pp},
          {"schedule", has_schedule() ? schedule_name() : std::string("none")},
          {"stage_split", split.str()}};
}

PipelineSchedule chosen_schedule(const PipelineOptions& options, const nn::ModelConfig& model,
                                 std::size_t micro_batches) {
  if (!options.schedule_file.empty()) return from_file(options, micro_batches);
  if (options.searches) return searched(options, model, micro_batches);
  PipelineSchedule schedule = make_schedule(options.schedule, options.pp, micro_batches);
  expect_valid(schedule);
  return schedule;
}

}  // namespace ultra::pipeline_parallel
