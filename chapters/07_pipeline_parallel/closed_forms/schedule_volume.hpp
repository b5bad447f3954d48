#pragma once
/// @file
/// Activations and messages of the published schedules in closed form.

#include <cstddef>

#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

namespace ultra::pipeline_parallel {

/// @brief The most activations that a stage keeps, of a micro-batch in one chunk each.
///
/// With s from 0 to p - 1 and v chunks:
///
/// | schedule              | activations                                  |
/// |-----------------------|----------------------------------------------|
/// | naive                 | 1                                            |
/// | afab                  | m                                            |
/// | 1f1b, pipedream-async | those of the warm-up and one more, at most m |
/// | interleaved           | the same, at most v m                        |
/// | zero-bubble-h1        | min(p, m)                                    |
/// | zero-bubble-h2        | min(2 p - 1, m)                              |
/// | zb-v                  | min(2 p, m + s + 1, 2 m): p stages' worth    |
/// | dualpipe-v            | min(2 p + 1, m + s + 1, 2 m)                 |
///
/// Source: as bubble_seconds(); those of a step that does not fill the pipeline are counted here.
[[nodiscard]] std::size_t peak_activations_of(const ScheduleChoice& choice,
                                              const PipelineShape& shape, std::size_t stage);

/// @brief Messages of a step, over all ranks: for each micro-batch one activation and one gradient
/// for each hop between two ranks. A loop of v chunks has p v - 1 hops, a V 2 p - 2.
[[nodiscard]] std::size_t messages_of(const ScheduleChoice& choice, const PipelineShape& shape);

}  // namespace ultra::pipeline_parallel
