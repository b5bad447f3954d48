#pragma once
/// @file
/// TraceRecorder: a timeline that Perfetto and chrome://tracing open.

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ultra::trace {

/// @brief Collects spans and counters of one rank and writes them in Chrome's trace format.
///
/// All members may be called from several threads.
/// Source: "Trace Event Format", the JSON that chrome://tracing and ui.perfetto.dev read.
class TraceRecorder {
 public:
  /// A counter's series at one moment: name and value.
  using Series = std::vector<std::pair<std::string, double>>;

  /// @brief An empty timeline that starts now.
  /// @param rank  becomes the process id of all events.
  explicit TraceRecorder(int rank);

  /// @brief Microseconds since the timeline's start.
  [[nodiscard]] double now() const;

  /// @brief Adds a span that has ended.
  /// @param track  the row it stands in, for example "compute".
  /// @param begin  microseconds since the timeline's start.
  /// @param end    microseconds since the timeline's start, not before `begin`.
  void add_span(std::string_view track, std::string_view name, double begin, double end);

  /// @brief Adds the values of a stacked counter as of now.
  void add_counter(std::string_view name, Series values);

  /// @brief The whole timeline as JSON text, events in order of time.
  [[nodiscard]] std::string json() const;

 private:
  struct Event {
    std::string name;
    double begin;
    double duration;  // negative for a counter
    int track;
    Series values;
  };
  int track_index(std::string_view track);

  int rank_;
  std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  std::vector<std::string> tracks_;
  std::vector<Event> events_;
};

}  // namespace ultra::trace
