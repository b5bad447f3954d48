#include "common/trace/trace_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ultra::trace {

using nlohmann::ordered_json;

TraceRecorder::TraceRecorder(int rank) : rank_(rank), start_(std::chrono::steady_clock::now()) {}

double TraceRecorder::now() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
      .count();
}

int TraceRecorder::track_index(std::string_view track) {
  const auto at = std::find(tracks_.begin(), tracks_.end(), track);
  if (at != tracks_.end()) return static_cast<int>(at - tracks_.begin());
  tracks_.emplace_back(track);
  return static_cast<int>(tracks_.size()) - 1;
}

void TraceRecorder::add_span(std::string_view track, std::string_view name, double begin,
                             double end) {
  const std::lock_guard lock(mutex_);
  events_.push_back({std::string(name), begin, end - begin, track_index(track), {}});
}

void TraceRecorder::add_counter(std::string_view name, Series values) {
  const double time = now();
  const std::lock_guard lock(mutex_);
  events_.push_back({std::string(name), time, -1.0, 0, std::move(values)});
}

std::string TraceRecorder::json() const {
  const std::lock_guard lock(mutex_);
  ordered_json list = ordered_json::array();
  list.push_back({{"ph", "M"},
                  {"name", "process_name"},
                  {"pid", rank_},
                  {"args", {{"name", fmt::format("rank {}", rank_)}}}});
  for (std::size_t t = 0; t < tracks_.size(); ++t) {
    list.push_back({{"ph", "M"},
                    {"name", "thread_name"},
                    {"pid", rank_},
                    {"tid", t},
                    {"args", {{"name", tracks_[t]}}}});
  }
  std::vector<const Event*> sorted;
  for (const Event& event : events_) sorted.push_back(&event);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Event* a, const Event* b) { return a->begin < b->begin; });
  for (const Event* event : sorted) {
    ordered_json entry = {{"ph", event->duration < 0 ? "C" : "X"},
                          {"name", event->name},
                          {"pid", rank_},
                          {"tid", event->track},
                          {"ts", event->begin}};
    if (event->duration < 0) {
      ordered_json values = ordered_json::object();
      for (const auto& [name, value] : event->values) values[name] = value;
      entry["args"] = std::move(values);
    } else {
      entry["dur"] = event->duration;
    }
    list.push_back(std::move(entry));
  }
  return ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(list)}}.dump();
}

}  // namespace ultra::trace
