#include "chapters/11_five_d/planner/fit.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ultra::planner {
namespace {

const char* largest_part_of(const StageMemory& memory) {
  const std::array<std::pair<double, const char*>, 6> parts = {
      {{memory.parameters, "parameters"},
       {memory.gradients, "gradients"},
       {memory.optimizer, "optimizer states"},
       {memory.activations, "activations"},
       {memory.transient, "what exists for a moment"},
       {memory.overhead, "buffers and the CUDA context"}}};
  return std::ranges::max_element(parts, {}, [](const auto& part) { return part.first; })->second;
}

}  // namespace

// [region fit]
Fit fit(const Question& question, const Layout& layout) {
  const double room = question.cluster.gpu.memory_bytes;
  Fit result{.memory = largest_stage(question, layout)};
  result.fits = result.memory.total() <= room;
  if (result.fits) return result;
  result.missing_bytes = result.memory.total() - room;
  result.largest_part = largest_part_of(result.memory);
  for (const Layout& cheaper : cheaper_layouts(layout)) {
    if (why_impossible(question.work, cheaper)) continue;
    if (largest_stage(question, cheaper).total() > room) continue;
    result.remedy = cheaper;
    break;
  }
  return result;
}
// [/region]

}  // namespace ultra::planner
