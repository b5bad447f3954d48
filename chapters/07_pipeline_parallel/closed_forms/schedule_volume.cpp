#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

std::size_t peak_activations_of(const ScheduleChoice& choice, const PipelineShape& shape,
                                std::size_t stage) {
  const std::size_t p = shape.stages;
  const std::size_t m = shape.micro_batches;
  const std::size_t v = choice.chunks();
  switch (choice.kind) {
    case ScheduleKind::kNaive:
      return 1;
    case ScheduleKind::kAfab:
      return m;
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kPipedreamAsync:
      return std::min(p - stage, m);
    case ScheduleKind::kInterleaved:
      return std::min((v - 1) * p + 2 * (p - stage - 1) + 1, v * m);
    case ScheduleKind::kZeroBubbleH1:
      return std::min(p, m);
    case ScheduleKind::kZeroBubbleH2:
      return std::min(2 * p - 1, m);
    case ScheduleKind::kZbV:
      return std::min({2 * p, m + stage + 1, 2 * m});
    case ScheduleKind::kDualPipeV:
      return std::min({2 * p + 1, m + stage + 1, 2 * m});
  }
  throw InternalError("a schedule has no closed form");
}

std::size_t messages_of(const ScheduleChoice& choice, const PipelineShape& shape) {
  if (shape.stages == 1) return 0;
  const std::size_t parts = shape.stages * choice.chunks();
  const std::size_t hops = choice.is_v_shaped() ? parts - 2 : parts - 1;
  return 2 * shape.micro_batches * hops;
}

}  // namespace ultra::pipeline_parallel
