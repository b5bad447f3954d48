#pragma once
/// @file
/// A rank's storage on its timeline.

#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "common/trace/step_timeline.hpp"

namespace ultra::zero {

/// @brief From now on every read and write of `states` is a span of the track "storage", or of
/// "storage 2" and so on where several run at once; and every wait for one is in "storage waiting".
/// @param timeline  outlives the states' use.
void show_storage_on(OffloadedStates& states, trace::StepTimeline& timeline);

}  // namespace ultra::zero
