#include "chapters/11_five_d/planner/layout_memory.hpp"

#include <algorithm>

#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"

namespace ultra::planner {
namespace {

double real(std::size_t value) { return static_cast<double>(value); }

/// States of parameters that so many ranks hold alike, in one or more copies.
void add_states(StageMemory& memory, const Question& question, const Layout& layout,
                double parameters, std::size_t holders) {
  const zero::RankBytes bytes =
      zero::bytes_per_rank({.stage = layout.zero,
                            .shards = static_cast<int>(holders / layout.copies),
                            .replicas = static_cast<int>(layout.copies)},
                           static_cast<std::size_t>(parameters), layout.precision);
  const double kept = question.software.kept_gradient_bytes(layout.precision) /
                      real(memory::bytes_per_parameter(layout.precision).gradients);
  memory.parameters += bytes.parameters;
  memory.gradients += kept * bytes.gradients;
  if (!layout.offload) memory.optimizer += bytes.optimizer;
}

}  // namespace

// [region memory]
StageMemory stage_memory(const Question& question, const Layout& layout,
                         const std::vector<std::size_t>& blocks, std::size_t stage) {
  const Workload& work = question.work;
  const StageParameters held = stage_parameters(work.model, layout, blocks, stage);
  const std::size_t replicas = layout.dp * layout.cp;
  StageMemory memory;
  add_states(memory, question, layout, held.others, replicas);
  add_states(memory, question, layout, held.experts, replicas / layout.ep);

  const auto kept = [&](memory::Recompute mode, bool experts) {
    return kept_bytes(work, layout, question.software, mode, experts);
  };
  const std::size_t with_experts = expert_blocks(work.model, blocks, stage);
  const std::size_t dense = blocks[stage] - with_experts;
  double blocks_keep = 0;
  double whole_block = 0;
  for (const auto& [count, experts] : {std::pair{dense, false}, std::pair{with_experts, true}}) {
    if (count == 0) continue;
    const double bytes = kept(layout.recompute, experts);
    blocks_keep += real(count) * bytes;
    whole_block = std::max(whole_block, kept(memory::Recompute::kNone, experts) - bytes);
  }
  const double in_flight =
      real(pipeline_parallel::peak_activations_of(
          layout.schedule, {.stages = layout.pp, .micro_batches = micro_batches_of(work, layout)},
          stage)) /
      real(layout.schedule.chunks());
  const TableBytes tables = table_bytes(work, layout, question.software);
  memory.activations = in_flight * blocks_keep;
  if (stage == 0) memory.activations += in_flight * tables.embedding;
  if (stage == output_stage(layout)) memory.activations += tables.head;

  memory.transient = whole_block;
  if (zero::shards_parameters(layout.zero) && blocks[stage] > 0) {
    const double of_parameter = real(memory::bytes_per_parameter(layout.precision).parameters);
    memory.transient += 2 * of_parameter * held.total() / real(blocks[stage]);
  }
  memory.overhead = overhead_bytes(question.software, memory, communicating_axes(layout));
  return memory;
}
// [/region]

}  // namespace ultra::planner
