#include "common/trace/trace_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/json.hpp"

namespace ultra::trace {

namespace {

/// A counter has no duration, a span one of at least 0.
constexpr double kNoDuration = -1.0;

Json object_of(const TraceRecorder::Series& series) {
  Json object = Json::object();
  for (const auto& [name, value] : series) object[name] = value;
  return object;
}

}  // namespace

TraceRecorder::TraceRecorder(int rank, Clock::time_point start) : rank_(rank), start_(start) {}

double TraceRecorder::at(Clock::time_point moment) const {
  return std::chrono::duration<double, std::micro>(moment - start_).count();
}

int TraceRecorder::track_index(std::string_view track) {
  const auto at = std::find(tracks_.begin(), tracks_.end(), track);
  if (at != tracks_.end()) return static_cast<int>(at - tracks_.begin());
  tracks_.emplace_back(track);
  return static_cast<int>(tracks_.size()) - 1;
}

void TraceRecorder::add_span(std::string_view track, std::string_view name, double begin,
                             double end, Series figures) {
  const std::lock_guard lock(mutex_);
  events_.push_back(
      {std::string(name), begin, end - begin, track_index(track), std::move(figures)});
}

void TraceRecorder::add_counter(std::string_view name, Series values) {
  const double time = now();
  const std::lock_guard lock(mutex_);
  events_.push_back({std::string(name), time, kNoDuration, 0, std::move(values)});
}

std::string TraceRecorder::events() const {
  const std::lock_guard lock(mutex_);
  std::string text = Json{{"ph", "M"},
                          {"name", "process_name"},
                          {"pid", rank_},
                          {"args", {{"name", fmt::format("rank {}", rank_)}}}}
                         .dump();
  for (std::size_t t = 0; t < tracks_.size(); ++t) {
    const Json track = {{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", rank_},
                        {"tid", t},
                        {"args", {{"name", tracks_[t]}}}};
    text += fmt::format(",{}", track.dump());
  }
  std::vector<const Event*> sorted;
  for (const Event& event : events_) sorted.push_back(&event);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Event* a, const Event* b) { return a->begin < b->begin; });
  for (const Event* event : sorted) {
    const bool is_span = event->duration >= 0;
    Json entry = {{"ph", is_span ? "X" : "C"},
                  {"name", event->name},
                  {"pid", rank_},
                  {"tid", event->track},
                  {"ts", event->begin}};
    if (is_span) entry["dur"] = event->duration;
    if (!is_span || !event->values.empty()) entry["args"] = object_of(event->values);
    text += fmt::format(",{}", entry.dump());
  }
  return text;
}

std::string TraceRecorder::json() const {
  const std::string own = events();
  return join_timelines({&own, 1});
}

std::string join_timelines(std::span<const std::string> events_of_ranks) {
  return fmt::format(R"({{"displayTimeUnit":"ms","traceEvents":[{}]}})",
                     fmt::join(events_of_ranks, ","));
}

}  // namespace ultra::trace
