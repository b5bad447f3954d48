#pragma once
/// @file
/// StepTimeline: names what a rank is doing, for its memory peaks and for its trace.

#include <cstddef>
#include <string>
#include <string_view>

#include "common/tensor/device.hpp"
#include "common/trace/trace_recorder.hpp"

namespace ultra::trace {

/// @brief Follows a rank through the phases of its training steps.
///
/// Each phase labels the device's memory peaks. With a recorder, phases of the first `traced_steps`
/// steps that are begun become spans, and every change of the memory in use becomes a stacked counter,
/// "memory". The operations of a device's streams become spans of the tracks "compute stream",
/// "communication stream" and "copy stream".
class StepTimeline {
 public:
  /// @param recorder      may be null: then only memory peaks are labelled.
  /// @param traced_steps  how many steps to record.
  StepTimeline(Device device, TraceRecorder* recorder, std::size_t traced_steps);
  StepTimeline(const StepTimeline&) = delete;
  StepTimeline& operator=(const StepTimeline&) = delete;
  ~StepTimeline();

  /// @brief Begins a step; the first is 1.
  void begin_step(std::size_t step);

  /// @brief Ends the phase under way and begins another.
  void enter(std::string_view phase);

  /// @brief Ends the phase under way.
  void leave() { close_span(); }

  /// @brief Ends the phase and the step under way.
  void end_step();

  /// @brief Records nothing from now on. Waits for a device with streams when it was recorded.
  void stop();

  /// @brief Adds a span of work that goes on beside the phases, when the step is recorded.
  /// @param track  the row that it stands in.
  void add_span(std::string_view track, std::string_view name,
                TraceRecorder::Clock::time_point begin, TraceRecorder::Clock::time_point end);

 private:
  [[nodiscard]] bool tracing() const;
  void close_span();

  Device device_;
  TraceRecorder* recorder_;
  std::size_t traced_steps_;
  std::size_t step_ = 0;
  std::size_t begun_steps_ = 0;
  bool records_ = false;  // memory and streams
  double step_begin_ = 0;
  double phase_begin_ = 0;
  std::string phase_;
};

}  // namespace ultra::trace
