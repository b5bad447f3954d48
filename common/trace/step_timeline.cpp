#include "common/trace/step_timeline.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/gpu/streams.hpp"

namespace ultra::trace {
namespace {

TraceRecorder::Clock::time_point moment(double seconds) {
  using Seconds = std::chrono::duration<double>;
  return TraceRecorder::Clock::time_point(
      std::chrono::duration_cast<TraceRecorder::Clock::duration>(Seconds(seconds)));
}

}  // namespace

StepTimeline::StepTimeline(Device device, TraceRecorder* recorder, std::size_t traced_steps)
    : device_(std::move(device)),
      recorder_(recorder),
      traced_steps_(traced_steps),
      records_(recorder != nullptr) {
  if (!records_) return;
  device_.set_memory_listener([recorder](const MemoryUsage& usage) {
    TraceRecorder::Series series;
    for (const MemoryCategory category : kMemoryCategories) {
      series.emplace_back(to_string(category), static_cast<double>(usage[category]));
    }
    recorder->add_counter("memory", std::move(series));
  });
  if (!has_streams(device_.kind())) return;
  device_.streams().set_listener([recorder](const gpu::StreamSlice& slice) {
    recorder->add_span(fmt::format("{} stream", to_string(slice.role)), slice.operation,
                       recorder->at(moment(slice.begin_seconds)),
                       recorder->at(moment(slice.end_seconds)));
  });
}

StepTimeline::~StepTimeline() {
  if (!records_) return;
  device_.set_memory_listener({});
  if (has_streams(device_.kind())) device_.streams().set_listener({});
}

void StepTimeline::stop() {
  if (!std::exchange(records_, false)) return;
  device_.set_memory_listener({});
  if (!has_streams(device_.kind())) return;
  gpu::Streams& streams = device_.streams();
  for (const gpu::StreamRole role : gpu::kStreamRoles) streams.synchronize(role);
  streams.report_slices();
  streams.set_listener({});
}

bool StepTimeline::tracing() const { return recorder_ != nullptr && begun_steps_ <= traced_steps_; }

void StepTimeline::begin_step(std::size_t step) {
  step_ = step;
  ++begun_steps_;
  if (!tracing()) stop();
  if (tracing()) step_begin_ = recorder_->now();
}

void StepTimeline::close_span() {
  if (tracing() && !phase_.empty()) {
    recorder_->add_span("phase", phase_, phase_begin_, recorder_->now());
  }
  phase_.clear();
}

void StepTimeline::enter(std::string_view phase) {
  close_span();
  phase_ = phase;
  device_.set_phase(fmt::format("step {}: {}", step_, phase));
  if (tracing()) phase_begin_ = recorder_->now();
}

void StepTimeline::end_step() {
  close_span();
  if (tracing()) {
    recorder_->add_span("step", fmt::format("step {}", step_), step_begin_, recorder_->now());
    if (has_streams(device_.kind())) device_.streams().report_slices();
  }
}

void StepTimeline::add_span(std::string_view track, std::string_view name,
                            TraceRecorder::Clock::time_point begin,
                            TraceRecorder::Clock::time_point end) {
  if (!tracing()) return;
  recorder_->add_span(track, name, recorder_->at(begin), recorder_->at(end));
}

}  // namespace ultra::trace
