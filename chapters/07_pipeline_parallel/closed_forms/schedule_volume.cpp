#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

std::size_t peak_activations_of(const ScheduleChoice& choice, const PipelineShape& shape,
                                std::size_t stage) {
  const Schedule& row = choice.row();
  ensure(row.peak != nullptr, "a schedule has a closed form of its activations");
  return row.peak({.stage = stage, .stages = shape.stages, .chunks = choice.chunks()},
                  shape.micro_batches);
}

std::size_t messages_of(const ScheduleChoice& choice, const PipelineShape& shape) {
  if (shape.stages == 1) return 0;
  const std::size_t parts = shape.stages * choice.chunks();
  const std::size_t hops = choice.is_v_shaped() ? parts - 2 : parts - 1;
  return 2 * shape.micro_batches * hops;
}

}  // namespace ultra::pipeline_parallel
