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

StageMemory largest_stage(const Question& question, const Layout& layout) {
  const std::vector<std::size_t> blocks =
      blocks_of_stages(question.work.model, layout, question.software);
  StageMemory largest;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const StageMemory memory = stage_memory(question, layout, blocks, stage);
    if (memory.total() > largest.total()) largest = memory;
  }
  return largest;
}

}  // namespace ultra::planner
