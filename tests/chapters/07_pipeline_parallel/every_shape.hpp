#pragma once
/// @file
/// The shapes of pipelines that tests of schedules go through.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>

#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"

namespace ultra::pipeline_parallel::test {

/// @brief Calls visit with every schedule on small pipelines, with fewer micro-batches
/// than stages, as many, a multiple, and numbers between.
template <class Visit>
void for_every_schedule(const Visit& visit) {
  for (const ScheduleChoice& choice : all_schedules()) {
    for (const std::size_t p : {1U, 2U, 3U, 4U, 5U, 8U}) {
      for (const std::size_t m : std::set<std::size_t>{1, 2, p, p + 1, 2 * p, 3 * p - 1, 4 * p}) {
        if (!choice.takes(m, p)) continue;
        SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", choice.str(), p, m));
        visit(choice, PipelineShape{.stages = p, .micro_batches = m});
      }
    }
  }
}

/// @brief The micro-batches from which on a schedule is what its paper says.
inline std::size_t least_micro_batches(const ScheduleChoice& choice, std::size_t stages) {
  switch (choice.kind) {
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kZeroBubbleH1:
      return stages;
    case ScheduleKind::kZeroBubbleH2:
    case ScheduleKind::kZbV:
      return 2 * stages - 1;
    case ScheduleKind::kDualPipeV:
      return 2 * stages;
    default:
      return 1;
  }
}

}  // namespace ultra::pipeline_parallel::test
