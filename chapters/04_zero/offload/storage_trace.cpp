#include "chapters/04_zero/offload/storage_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ultra::zero {
namespace {

using storage::TransferTimes;

/// Spans of one track must not overlap, and transfers do not come in the order of their times.
class Tracks {
 public:
  /// The number, from 1, of a track that has nothing else at that time.
  std::size_t place(const TransferTimes& times) {
    const auto free =
        std::find_if(tracks_.begin(), tracks_.end(), [&](const std::vector<TransferTimes>& track) {
          return std::none_of(track.begin(), track.end(), [&](const TransferTimes& other) {
            return other.begin < times.end && times.begin < other.end;
          });
        });
    const auto track = free == tracks_.end() ? tracks_.insert(free, {{}}) : free;
    track->push_back(times);
    if (track->size() > kRemembered) track->erase(track->begin());
    return static_cast<std::size_t>(track - tracks_.begin()) + 1;
  }

 private:
  static constexpr std::size_t kRemembered = 64;  // many more than run at once
  std::vector<std::vector<TransferTimes>> tracks_;
};

}  // namespace

void show_storage_on(OffloadedStates& states, trace::StepTimeline& timeline) {
  states.observe([&timeline, tracks = Tracks()](const StorageEvent& event) mutable {
    std::string track = "storage waiting";
    if (event.kind != StorageEvent::Kind::kWait) {
      const std::size_t number = tracks.place(event.times);
      track = number == 1 ? "storage" : fmt::format("storage {}", number);
    }
    timeline.add_span(track, event.name, event.times.begin, event.times.end);
  });
}

}  // namespace ultra::zero
