#include "common/tensor/memory_tracker.hpp"

#include <numeric>

#include "common/base/errors.hpp"

namespace ultra {

std::string_view to_string(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameters:
      return "parameters";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kOptimizer:
      return "optimizer";
    case MemoryCategory::kActivations:
      return "activations";
    case MemoryCategory::kCommunication:
      return "communication";
    case MemoryCategory::kOther:
      return "other";
  }
  return "?";
}

std::size_t MemoryUsage::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

void MemoryTracker::add(MemoryCategory category, std::size_t bytes) {
  current_.bytes[static_cast<std::size_t>(category)] += bytes;
  note_peaks(category);
  if (listener_) listener_(current_);
}

void MemoryTracker::remove(MemoryCategory category, std::size_t bytes) {
  std::size_t& held = current_.bytes[static_cast<std::size_t>(category)];
  ensure(held >= bytes, "more bytes freed than a memory category holds");
  held -= bytes;
  if (listener_) listener_(current_);
}

void MemoryTracker::move(MemoryCategory from, MemoryCategory to, std::size_t bytes) {
  std::size_t& held = current_.bytes[static_cast<std::size_t>(from)];
  ensure(held >= bytes, "more bytes moved than a memory category holds");
  held -= bytes;
  current_.bytes[static_cast<std::size_t>(to)] += bytes;
  note_peaks(to);
  if (listener_) listener_(current_);
}

void MemoryTracker::note_peaks(MemoryCategory grown) {
  MemoryPeak& peak = peaks_[static_cast<std::size_t>(grown)];
  if (current_[grown] > peak.bytes) {
    peak.bytes = current_[grown];
    peak.phase = phase_;
  }
  if (current_.total() > peak_total_.bytes) {
    peak_total_.bytes = current_.total();
    peak_total_.phase = phase_;
    at_peak_ = current_;
  }
}

void MemoryTracker::reset_peaks() {
  for (const MemoryCategory category : kMemoryCategories) {
    peaks_[static_cast<std::size_t>(category)] = {current_[category], phase_};
  }
  peak_total_ = {current_.total(), phase_};
  at_peak_ = current_;
}

}  // namespace ultra
