#include "chapters/07_pipeline_parallel/closed_forms/bubble_fraction.hpp"

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

// [region bubble_fraction]
double bubble_seconds(const ScheduleChoice& choice, const PipelineShape& shape,
                      const PartCost& part, double overlapped) {
  const auto hops = static_cast<double>(shape.stages - 1);
  switch (choice.kind) {
    case ScheduleKind::kNaive:
      // While a micro-batch is elsewhere, everybody else waits.
      return hops * static_cast<double>(shape.micro_batches) * part.together();
    case ScheduleKind::kAfab:
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kPipedreamAsync:
    case ScheduleKind::kInterleaved:  // of parts, which are smaller than stages
      return hops * part.together();
    case ScheduleKind::kZeroBubbleH1:
      return hops * (part.forward + part.backward_input - part.backward_weight);
    case ScheduleKind::kZeroBubbleH2:
      return hops * (part.forward + part.backward_input - 2 * part.backward_weight);
    case ScheduleKind::kZbV:
      return 0;
    case ScheduleKind::kDualPipeV:
      return hops * (overlapped * part.together() + part.backward() - 3 * part.backward_weight);
  }
  throw InternalError("a schedule has no closed form");
}

double bubble_over_ideal(const ScheduleChoice& choice, const PipelineShape& shape,
                         const PartCost& part) {
  const auto passes = static_cast<double>(shape.micro_batches * choice.chunks());
  return bubble_seconds(choice, shape, part) / (passes * part.together());
}

double bubble_over_total(double bubble_over_ideal) {
  return bubble_over_ideal / (1 + bubble_over_ideal);
}
// [/region]

}  // namespace ultra::pipeline_parallel
