#include <algorithm>

#include "chapters/11_five_d/planner/layout_memory.hpp"

namespace ultra::planner {

double overhead_bytes(const Software& software, const StageMemory& memory, int groups) {
  if (!software.on_gpus) return 0;
  constexpr double kContext = 0.8e9;    // CUDA context, kernels, cuBLAS workspace
  constexpr double kPerGroup = 0.4e9;   // NCCL's buffers and channels
  constexpr double kFragmented = 0.05;  // of what comes and goes
  return kContext + kPerGroup * groups + kFragmented * (memory.activations + memory.transient);
}

int communicating_axes(const Layout& layout) {
  int axes = 0;
  for (const std::size_t size : {layout.dp, layout.pp, layout.cp, layout.tp, layout.ep}) {
    if (size > 1) ++axes;
  }
  return axes;
}

namespace {

/// Of offloaded activations two blocks' are in the GPU: one on its way, and one in use.
StageMemory with_offloaded_activations(const Question& question, const Layout& layout,
                                       std::size_t blocks, StageMemory memory) {
  if (!layout.offload_activations) return memory;
  const double of_block = kept_bytes(question.work, layout, question.software, layout.recompute,
                                     question.work.model.has_experts());
  const double held = static_cast<double>(std::min<std::size_t>(blocks, 2)) * of_block;
  memory.activations = std::min(memory.activations, held);
  memory.overhead = overhead_bytes(question.software, memory, communicating_axes(layout));
  return memory;
}

}  // namespace

StageMemory largest_stage(const Question& question, const Layout& layout) {
  const std::vector<std::size_t> blocks =
      blocks_of_stages(question.work.model, layout, question.software);
  StageMemory largest;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const StageMemory memory = with_offloaded_activations(
        question, layout, blocks[stage], stage_memory(question, layout, blocks, stage));
    if (memory.total() > largest.total()) largest = memory;
  }
  return largest;
}

}  // namespace ultra::planner
