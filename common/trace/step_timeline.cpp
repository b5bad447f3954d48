#include "common/trace/step_timeline.hpp"

#include <fmt/format.h>

#include <utility>

namespace ultra::trace {

StepTimeline::StepTimeline(Device device, TraceRecorder* recorder, std::size_t traced_steps)
    : device_(std::move(device)), recorder_(recorder), traced_steps_(traced_steps) {
  if (recorder_ == nullptr) return;
  device_.set_memory_listener([recorder](const MemoryUsage& usage) {
    TraceRecorder::Series series;
    for (const MemoryCategory category : kMemoryCategories) {
      series.emplace_back(to_string(category), static_cast<double>(usage[category]));
    }
    recorder->add_counter("memory", std::move(series));
  });
}

StepTimeline::~StepTimeline() { device_.set_memory_listener({}); }

bool StepTimeline::tracing() const { return recorder_ != nullptr && begun_steps_ <= traced_steps_; }

void StepTimeline::begin_step(std::size_t step) {
  step_ = step;
  ++begun_steps_;
  if (recorder_ != nullptr && !tracing()) device_.set_memory_listener({});
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
  }
}

void StepTimeline::add_span(std::string_view track, std::string_view name,
                            TraceRecorder::Clock::time_point begin,
                            TraceRecorder::Clock::time_point end) {
  if (!tracing()) return;
  recorder_->add_span(track, name, recorder_->at(begin), recorder_->at(end));
}

}  // namespace ultra::trace
