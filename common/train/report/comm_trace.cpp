#include "common/train/report/comm_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ultra::train {
namespace {

std::string name_of(const OperationInfo& info) {
  std::string name = fmt::format("{} {}", to_string(info.kind), info.communicator);
  return info.label.empty() ? name : fmt::format("{}: {}", name, info.label);
}

}  // namespace

CommTrace::CommTrace(Communicator world, trace::TraceRecorder* recorder)
    : world_(std::move(world)), recorder_(recorder) {
  if (recorder_ != nullptr) world_.set_observer(this);
}

void CommTrace::stop() {
  if (recorder_ == nullptr) return;
  world_.set_observer(nullptr);
  recorder_ = nullptr;
}

void CommTrace::operation_ended(const OperationInfo& info, std::size_t sent_bytes,
                                Clock::time_point begin, Clock::time_point end) {
  // Operations are told in the order of their ends, so a track is free when its last has ended.
  auto free = std::find_if(track_ends_.begin(), track_ends_.end(),
                           [&](Clock::time_point track_end) { return track_end <= begin; });
  if (free == track_ends_.end()) free = track_ends_.insert(free, end);
  *free = end;
  const auto number = free - track_ends_.begin() + 1;
  recorder_->add_span(number == 1 ? "communication" : fmt::format("communication {}", number),
                      name_of(info), recorder_->at(begin), recorder_->at(end),
                      {{"elements", static_cast<double>(info.count)},
                       {"sent_bytes", static_cast<double>(sent_bytes)}});
}

void CommTrace::waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) {
  recorder_->add_span("waiting", name_of(info), recorder_->at(begin), recorder_->at(end));
}

}  // namespace ultra::train
