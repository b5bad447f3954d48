#pragma once
/// @file
/// TraceRecorder: a timeline that Perfetto and chrome://tracing open.

#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ultra::trace {

/// @brief Collects spans and counters of one rank and writes them in Chrome's trace format.
///
/// Spans of one track must not overlap unless one holds the other: viewers draw them as a stack. All members may be called from several threads.
/// Source: "Trace Event Format", the JSON that chrome://tracing and ui.perfetto.dev read.
class TraceRecorder {
 public:
  /// What moments are measured with.
  using Clock = std::chrono::steady_clock;
  /// Names with values: a counter's series at one moment, or the figures of a span.
  using Series = std::vector<std::pair<std::string, double>>;

  /// @brief An empty timeline.
  /// @param rank   becomes the process id of all events.
  /// @param start  time 0; the same moment on all ranks whose timelines go into one file.
  explicit TraceRecorder(int rank, Clock::time_point start = Clock::now());

  /// @brief Microseconds since the timeline's start.
  [[nodiscard]] double now() const { return at(Clock::now()); }

  /// @brief A moment in microseconds since the timeline's start.
  [[nodiscard]] double at(Clock::time_point moment) const;

  /// @brief Adds a span that has ended.
  /// @param track    the row it stands in, for example "compute".
  /// @param begin    microseconds since the timeline's start.
  /// @param end      microseconds since the timeline's start, not before `begin`.
  /// @param figures  what a click on the span shows.
  void add_span(std::string_view track, std::string_view name, double begin, double end,
                Series figures = {});

  /// @brief Adds the values of a stacked counter as of now.
  void add_counter(std::string_view name, Series values);

  /// @brief The events of this rank in order of time, as JSON objects separated by commas: a part of
  /// a timeline of several ranks.
  [[nodiscard]] std::string events() const;

  /// @brief The timeline of this rank alone, as JSON text.
  [[nodiscard]] std::string json() const;

 private:
  struct Event {
    std::string name;
    double begin;
    double duration;  // negative for a counter
    int track;
    Series values;  // of a counter, or the figures of a span
  };
  int track_index(std::string_view track);

  int rank_;
  Clock::time_point start_;
  mutable std::mutex mutex_;
  std::vector<std::string> tracks_;
  std::vector<Event> events_;
};

/// @brief The timeline of several ranks as JSON text: the content of a trace file.
/// @param events_of_ranks  TraceRecorder::events() of each rank.
[[nodiscard]] std::string join_timelines(std::span<const std::string> events_of_ranks);

}  // namespace ultra::trace
