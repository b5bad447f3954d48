#include "chapters/07_pipeline_parallel/simulate/gantt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/action_names.hpp"
#include "common/base/json.hpp"
#include "common/trace/trace_recorder.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::ActionKind;

Json to_json(std::size_t stage, const TimedAction& timed) {
  return {{"stage", stage},
          {"action", timed.action.str()},
          {"kind", letters_of(timed.action.kind)},
          {"micro_batch", timed.action.micro_batch},
          {"part", timed.part},
          {"begin", timed.begin},
          {"end", timed.end}};
}

Json to_json(const TimedMessage& timed) {
  const bool is_activation = timed.message.content == Content::kActivation;
  return {{"content", is_activation ? "activation" : "gradient"},
          {"micro_batch", timed.message.micro_batch},
          {"part", timed.message.part},
          {"from", timed.from},
          {"to", timed.to},
          {"begin", timed.begin},
          {"end", timed.end}};
}

char letter_of(const train::Action& action) {
  const auto digit = static_cast<int>(action.micro_batch % 10);
  switch (action.kind) {
    case ActionKind::kForward:
      return static_cast<char>('0' + digit);
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return static_cast<char>('a' + digit);
    case ActionKind::kBackwardWeight:
      return static_cast<char>('A' + digit);
    case ActionKind::kUpdate:
      return '|';
  }
  return '?';
}

/// Two actions at the same time get half of it each.
std::vector<TimedAction> one_after_the_other(std::vector<TimedAction> actions) {
  for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
    const bool overlap = actions[i].begin == actions[i + 1].begin &&
                         actions[i].end == actions[i + 1].end && actions[i].end > actions[i].begin;
    if (!overlap) continue;
    actions[i].end = (actions[i].begin + actions[i].end) / 2;
    actions[i + 1].begin = actions[i].end;
  }
  return actions;
}

/// Whether all actions begin and end at whole seconds.
bool has_whole_seconds(const SimulatedStep& step) {
  return std::ranges::all_of(step.ranks, [](const SimulatedRank& rank) {
    return std::ranges::all_of(rank.actions, [](const TimedAction& timed) {
      return timed.begin == std::floor(timed.begin) && timed.end == std::floor(timed.end);
    });
  });
}

}  // namespace

std::string gantt_json(const PipelineSchedule& schedule, const SimulatedStep& step) {
  Json actions = Json::array();
  Json peaks = Json::array();
  for (std::size_t stage = 0; stage < step.ranks.size(); ++stage) {
    for (const TimedAction& timed : step.ranks[stage].actions) {
      actions.push_back(to_json(stage, timed));
    }
    peaks.push_back(step.ranks[stage].peak_live);
  }
  Json messages = Json::array();
  for (const TimedMessage& timed : step.messages) messages.push_back(to_json(timed));
  const Json gantt = {{"schedule", schedule.name},
                      {"stages", schedule.stages()},
                      {"micro_batches", schedule.micro_batches},
                      {"chunks", schedule.placement.chunks()},
                      {"unit", "s"},
                      {"seconds", step.seconds()},
                      {"bubble_over_ideal", step.bubble_over_ideal()},
                      {"bubble_over_total", step.bubble_over_total()},
                      {"peak_activations", peaks},
                      {"actions", actions},
                      {"messages", messages}};
  return gantt.dump(1) + "\n";
}

std::string gantt_trace(const PipelineSchedule& schedule, const SimulatedStep& step) {
  constexpr double kMicroseconds = 1e6;
  std::vector<std::string> events;
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    trace::TraceRecorder recorder(static_cast<int>(stage));
    for (const TimedAction& timed : one_after_the_other(step.ranks[stage].actions)) {
      recorder.add_span("compute", timed.action.str(), timed.begin * kMicroseconds,
                        timed.end * kMicroseconds);
    }
    for (const TimedMessage& timed : step.messages) {
      if (timed.from != stage) continue;
      recorder.add_span(fmt::format("to stage {}", timed.to), timed.message.str(),
                        timed.begin * kMicroseconds, timed.left * kMicroseconds);
    }
    events.push_back(recorder.events());
  }
  return trace::join_timelines(events);
}

std::string gantt_text(const PipelineSchedule& schedule, const SimulatedStep& step,
                       std::size_t columns) {
  const double seconds = step.seconds();
  const bool is_whole = seconds <= static_cast<double>(columns) && has_whole_seconds(step);
  const double width = is_whole ? seconds : static_cast<double>(columns);
  std::string text;
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    std::string line(static_cast<std::size_t>(width), '.');
    for (const TimedAction& timed : one_after_the_other(step.ranks[stage].actions)) {
      // A column shows what is under way in its middle.
      const auto first = std::ceil(timed.begin / seconds * width - 0.5);
      const auto end = std::min(std::ceil(timed.end / seconds * width - 0.5), width);
      for (auto at = std::max(first, 0.0); at < end; ++at) {
        line[static_cast<std::size_t>(at)] = letter_of(timed.action);
      }
    }
    text += fmt::format("  {:>3} {}\n", stage, line);
  }
  return text;
}

}  // namespace ultra::pipeline_parallel
