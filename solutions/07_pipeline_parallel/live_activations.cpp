#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {

// [region live_activations]
std::size_t peak_live_activations(std::span<const train::Action> list) {
  std::size_t live = 0;
  std::size_t peak = 0;
  for (const train::Action& action : list) {
    if (action.kind == train::ActionKind::kForward) peak = std::max(peak, ++live);
    // B needs activations, but W does too: they stay until the weights have their gradients.
    if (action.makes_gradients()) --live;
  }
  return peak;
}
// [/region]

// [region saved_bytes]
double peak_saved_bytes(std::span<const train::Action> list, std::span<const SavedBytes> chunks) {
  double bytes = 0;
  double peak = 0;
  for (const train::Action& action : list) {
    const SavedBytes& saved = chunks[action.chunk];
    switch (action.kind) {
      case train::ActionKind::kForward:
        bytes += saved.by_forward;
        peak = std::max(peak, bytes);
        break;
      case train::ActionKind::kBackward:
        bytes -= saved.by_forward;
        break;
      case train::ActionKind::kBackwardInput:
        bytes -= saved.by_forward - saved.for_weights;
        break;
      case train::ActionKind::kBackwardWeight:
        bytes -= saved.for_weights;
        break;
      case train::ActionKind::kUpdate:
        break;
    }
  }
  return peak;
}
// [/region]

}  // namespace ultra::pipeline_parallel
